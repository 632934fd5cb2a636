// Package block builds one block of rows column by column, in the form that ClickHouse's
// Native format wants, so that a value is copied once between a span and the wire. It
// knows types of columns and nothing of what they mean.
package block
