package dashboards

import (
	"encoding/json"
	"fmt"
)

// Files returns the generated files by name: each dashboard as indented JSON in the
// form that Grafana's file provisioning reads.
func Files() (map[string][]byte, error) {
	oncall, err := OnCall()
	if err != nil {
		return nil, fmt.Errorf("build the on-call dashboard: %w", err)
	}
	text, err := json.MarshalIndent(oncall, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the on-call dashboard: %w", err)
	}
	return map[string][]byte{"oncall.json": append(text, '\n')}, nil
}
