"""What the trail says of changes of users."""

from __future__ import annotations

from ariane.admin.v1 import access_policy_service_pb2 as policy_pb
from ariane.admin.v1 import user_service_pb2 as user_pb
from ariane_admin.audit.auditing import resource_name


def test_changes_of_users_name_the_user():
    create = user_pb.CreateUserRequest(user=user_pb.User(user="anna"))
    delete = user_pb.DeleteUserRequest(user="anna")
    policy = policy_pb.UpdateAccessPolicyRequest(policy=policy_pb.AccessPolicy(user="anna"))
    assert [resource_name(each) for each in (create, delete, policy)] == ["anna"] * 3
