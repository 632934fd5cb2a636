// Package dashboards builds driftline's Grafana dashboards with the Grafana
// Foundation SDK. The JSON in dashboards/json is generated from it and committed.
package dashboards

//go:generate go run ./generate json
