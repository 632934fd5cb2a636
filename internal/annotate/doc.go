// Package annotate carries findings on OTLP spans: rows become span events and
// events become rows again, and OTLP spans become the domain's spans.
//
// The form is fixed in docs/attributes.md. Both directions work from plans that are
// computed once from rows.Fields, so a new column needs no change here.
package annotate
