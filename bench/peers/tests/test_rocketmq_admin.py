from peer_bench.contenders.rocketmq.admin import queues_in

ROUTE = """{
\t"brokerDatas":[
\t\t{
\t\t\t"brokerAddrs":{0:"127.0.0.1:40003"
\t\t\t},
\t\t\t"brokerName":"broker-java",
\t\t\t"cluster":"DefaultCluster"
\t\t}
\t],
\t"queueDatas":[
\t\t{
\t\t\t"brokerName":"broker-java",
\t\t\t"perm":6,
\t\t\t"readQueueNums":4,
\t\t\t"topicSysFlag":0,
\t\t\t"writeQueueNums":4
\t\t}
\t]
}
"""


def test_a_route_is_there_with_its_queues_or_not_at_all():
    assert queues_in(ROUTE) == 4
    assert queues_in(ROUTE.replace('":4', '" : 1')) == 1
    assert queues_in("") == 0
    assert queues_in("CODE: 17  DESC: No topic route info in name server for the topic: a") == 0
