package storagetest

import (
	"encoding/pem"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configtls"
	"go.opentelemetry.io/collector/extension/extensiontest"

	"driftline/exporter/genaiclickhouse"
	"driftline/internal/engine/enginetest"
	"driftline/internal/rows"
	"driftline/schema"
)

type storageHost struct{ storage component.Component }

var storageID = component.MustNewID("file_storage")

func (h storageHost) GetExtensions() map[component.ID]component.Component {
	return map[component.ID]component.Component{storageID: h.storage}
}

func newStorage(t *testing.T, dir string) component.Component {
	factory := filestorage.NewFactory()
	cfg := factory.CreateDefaultConfig().(*filestorage.Config)
	cfg.Directory = dir
	storage, err := factory.Create(ctx, extensiontest.NewNopSettings(factory.Type()), cfg)
	require.NoError(t, err)
	require.NoError(t, storage.Start(ctx, componenttest.NewNopHost()))
	return storage
}

// TestAPersistentQueueOutlivesTheCollector takes data while there is no schema, stops, and
// lets a second exporter on the same folder store it.
func TestAPersistentQueueOutlivesTheCollector(t *testing.T) {
	r := newBareRig(t)
	dir, endpoint := t.TempDir(), enginetest.Shared(t).URL(t)
	stored := func(c *genaiclickhouse.Config) {
		withQueue(c)
		c.QueueConfig.Get().StorageID = &storageID
	}
	storage := newStorage(t, dir)
	exp := r.newExporter(endpoint, storageHost{storage}, stored)
	rng := newSeed(t)
	for range 40 {
		require.NoError(t, exp.ConsumeTraces(ctx, traces(randomRow(rng, rows.TableOperations))))
	}
	require.Eventually(t, func() bool { return total(r.sums("spans_refused")) > 0 }, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, exp.Shutdown(ctx))
	require.NoError(t, storage.Shutdown(ctx))

	require.NoError(t, schema.Up(ctx, r.conn, schema.Options{Database: r.db}, nil))
	storage = newStorage(t, dir)
	exp = r.newExporter(endpoint, storageHost{storage}, stored)
	require.Eventually(t, func() bool { return r.count("SELECT count() FROM {db}.operations_base") >= 40 }, 60*time.Second, 20*time.Millisecond)
	require.NoError(t, exp.Shutdown(ctx))
	require.NoError(t, storage.Shutdown(ctx))
	require.EqualValues(t, 40, r.count("SELECT count() FROM {db}.operations_base"))
}

func TestHTTPSWithAnOwnAuthority(t *testing.T) {
	target, err := url.Parse(enginetest.Shared(t).URL(t))
	require.NoError(t, err)
	server := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(target))
	defer server.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	r := newRig(t)
	exp := r.newExporter(server.URL, componenttest.NewNopHost(), func(c *genaiclickhouse.Config) {
		settings := configtls.NewDefaultClientConfig()
		settings.CAPem = configopaque.String(authority)
		c.TLS = configoptional.Some(settings)
	})
	require.NoError(t, exp.ConsumeTraces(ctx, mixedSpans()))
	require.EqualValues(t, 1, r.count("SELECT count() FROM {db}.spans"))

	distrustful := r.newExporter(server.URL, componenttest.NewNopHost())
	require.ErrorContains(t, distrustful.ConsumeTraces(ctx, mixedSpans()), "certificate")
}
