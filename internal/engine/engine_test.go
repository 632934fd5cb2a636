package engine_test

import (
	"testing"

	"driftline/internal/engine/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }
