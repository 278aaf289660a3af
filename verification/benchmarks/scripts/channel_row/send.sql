SELECT row_enqueue('c1', :payload);
