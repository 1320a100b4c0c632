// Package ariane is the Go client of ArianeMQ: a thin layer over the stubs that are generated from the
// contract, in ariane.mq/go/arianepb.
//
// A [Client] knows the name servers and keeps one connection to each process. A [Producer] sends,
// a [Consumer] receives and settles, a [TransactionProducer] sends messages that become visible when
// something else has happened. All are safe for concurrent use.
//
// Every call takes a context; its deadline is the deadline of everything that the call does, repeats
// included. Errors of the cluster are of type [*Error]; the reasons are those of the contract.
package ariane
