// Package traffic is a mechanistic model of agents' requests: it draws arrivals, plays every
// request's model calls, tool calls, attempts, backoffs and deadlines second by second, and
// emits the rows that the processor would have made of its spans.
//
// Nothing is declared that a mechanism can give. A request ends with HTTP 504 only because its
// time reached the gateway's limit; a call is retried only because an attempt failed or reached
// its cap; a wait comes from a backend's backlog. So an incident is a change of conditions over
// time and what it leads to is not known beforehand.
package traffic
