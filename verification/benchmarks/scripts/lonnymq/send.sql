SELECT lonnymq.message_create('c1', convert_to(:payload, 'UTF8'), NULL);
