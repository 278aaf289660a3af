from django.urls import path

from django_pgqueue.http.operations import OPERATIONS
from django_pgqueue.http.views import openapi, view

app_name = "pgqueue_http"
urlpatterns = [path("openapi.json", openapi, name="openapi")]
for place in dict.fromkeys(each.path for each in OPERATIONS):
    urlpatterns.append(path(place, view({each.method: each for each in OPERATIONS if each.path == place})))
