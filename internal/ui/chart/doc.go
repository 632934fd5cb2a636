// Package chart draws small SVG charts from numbers: lines over time, dot ranges,
// histograms and waterfalls.
//
// Each chart is a struct whose SVG method is a pure function of its fields. Colours
// come from the page's style sheet through class names, so that light and dark
// need no second drawing; nothing is set by style attributes, which a strict
// content security policy refuses. NaN is "not known" and is drawn as a gap, never
// as zero. Every drawing has a title and a description for screen readers, but the
// numbers themselves belong in a table beside it.
package chart
