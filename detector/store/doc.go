// Package store asks ClickHouse every question that the detections, the pages and
// the demo have, and keeps alerts and the detector's state.
//
// Reads of traffic go to the rollups and are bounded in time; only examples, open
// requests and single traces read base tables, through the views that show the
// latest rows without tombstones. Values are bound parameters; table names come
// from this package.
package store
