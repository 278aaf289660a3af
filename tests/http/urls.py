"""The door as a project mounts it, beside the admin, which makes the keys."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [path("admin/", admin.site.urls), path("queue/", include("django_pgqueue.http.urls"))]
