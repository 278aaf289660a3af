import sys

from django_pgqueue.spark.cli import main

if __name__ == "__main__":
    sys.exit(main())
