"""Publish the lake: mirror it to an object store such as S3, where other programs read it.

Only what is new is uploaded. A killed run is continued by the next one. Credentials come from the environment
(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_PROFILE …) or the usual files of AWS, never from options. It needs
neither Java nor the database.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from django_pgqueue.spark.arguments import add_lake

CHECKS = ("size", "new", "all")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command to its parser."""
    add_lake(parser)
    parser.add_argument(
        "--to",
        required=True,
        metavar="URL",
        help="where the copy is: s3://bucket/prefix, gs://bucket/prefix, file:///folder; a prefix is for one lake",
    )
    parser.add_argument(
        "--endpoint", metavar="URL", help="the address of an S3 store that is not AWS, as http://minio:9000"
    )
    parser.add_argument(
        "--check",
        choices=CHECKS,
        default="new",
        help="compare sizes, or also the SHA-256 of new files, or of all, which are read for it (default: new)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be uploaded and deleted")


def run(args: Namespace) -> int:
    """Mirror the lake, or say what would be done. Returns 0; raises PipelineError, LakeBusy."""
    from django_pgqueue.spark.lake import Lake
    from django_pgqueue.spark.publish.job import publish
    from django_pgqueue.spark.publish.target import open_target

    lake = Lake.open(args.lake)
    target = open_target(args.to, args.endpoint, lake.path)
    print(publish(lake, target, check=args.check, dry_run=args.dry_run))
    return 0
