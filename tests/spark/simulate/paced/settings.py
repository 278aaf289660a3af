from testproject.settings import *  # noqa: F403
from testproject.settings import INSTALLED_APPS

# Without the demo's: async handlers would share the workers.
INSTALLED_APPS = [app for app in INSTALLED_APPS if app != "flights"] + ["tests.spark.simulate.paced"]
