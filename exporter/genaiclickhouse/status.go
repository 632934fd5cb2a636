package genaiclickhouse

import (
	"errors"

	"go.opentelemetry.io/collector/component/componentstatus"
	"go.uber.org/zap"

	"driftline/schema"
)

// condition is what the collector and the log were last told of ClickHouse. Each kind of
// trouble is told once, not at every try.
type condition struct {
	// told names the last report.
	told string
	// inserting says that an INSERT failed, which only an INSERT that succeeds takes back.
	inserting bool
}

const toldReady = "ready"

// reportSchema tells what a check of the schema found. The caller holds e.mu.
func (e *genaiExporter) reportSchema(err error) {
	if err == nil && e.condition.inserting {
		return
	}
	e.condition.inserting = false
	e.report(err)
}

// reportInsert tells what became of a try to store data. Tries that ended before an INSERT
// were reported by the check of the schema.
func (e *genaiExporter) reportInsert(err error) {
	if err != nil && tableOf(err) == "" {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil && !e.condition.inserting {
		return
	}
	e.condition.inserting = err != nil
	e.report(err)
}

func (e *genaiExporter) report(err error) {
	name := toldReady
	if err != nil {
		// The texts of one kind of failure differ from try to try; those of a schema
		// mismatch say how far a migration has come.
		name = describe(err).name
		if mismatch := new(schema.Error); errors.As(err, &mismatch) {
			name = mismatch.Error()
		}
	}
	if name == e.condition.told {
		return
	}
	e.condition.told = name
	err = explain(err)
	switch {
	case err == nil:
		componentstatus.ReportStatus(e.host, componentstatus.NewEvent(componentstatus.StatusOK))
		e.log.Info("ClickHouse is ready", zap.String("database", e.cfg.Database), zap.Int("schema_version", schema.Version))
	case errors.Is(err, schema.ErrNewer):
		// Only another binary mends it, so a permanent status, which the collector never takes
		// back, is right. All else can come right while this one runs.
		componentstatus.ReportStatus(e.host, componentstatus.NewPermanentErrorEvent(err))
		e.log.Error("ClickHouse cannot be written to; data is kept in the queue", zap.Error(err))
	default:
		componentstatus.ReportStatus(e.host, componentstatus.NewRecoverableErrorEvent(err))
		e.log.Warn("waiting for ClickHouse; data is kept in the queue", zap.Error(err))
	}
}
