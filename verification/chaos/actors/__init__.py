"""Those who use the queue during a run, over plain SQL, and write down what they ask and hear."""
