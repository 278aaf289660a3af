APPS = ("pgqueue", "pgqueue_pipeline")


class QueueRouter:
    """The queue's tables on an alias of their own."""

    def db_for_read(self, model, **hints):
        return "queue" if model._meta.app_label in APPS else None

    db_for_write = db_for_read

    def allow_migrate(self, db, app_label, **hints):
        return (db == "queue") == (app_label in APPS)
