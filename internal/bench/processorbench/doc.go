// Processorbench measures genaisegment beside contrib's groupbytraceprocessor: the same
// spans, held for the same time, with what comes out consumed; spans a second, CPU a span
// and the peak of the heap.
//
// Both run in a bubble of package testing/synctest, in which time stands still while
// anything works. So the making of spans is left out of what is measured, both hold each
// span for exactly the same time, and minutes of traffic take seconds.
package main
