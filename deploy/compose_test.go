package deploy

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"driftline/detector"
	"driftline/schema"
)

const (
	oneNode = "../docker-compose.yml"
	cluster = "../docker-compose.cluster.yml"
)

// each runs a check on both compose files.
func each(t *testing.T, check func(t *testing.T, project *types.Project)) {
	for _, file := range []string{oneNode, cluster} {
		t.Run(filepath.Base(file), func(t *testing.T) { check(t, load(t, file)) })
	}
}

func load(t *testing.T, file string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{file}, cli.WithEnv([]string{"CLICKHOUSE_PASSWORD=test"}))
	require.NoError(t, err)
	project, err := options.LoadProject(context.Background())
	require.NoError(t, err)
	return project
}

func TestComposeHasTheParts(t *testing.T) {
	ours := []string{"migrate", "collector", "detectd", "alertmanager", "grafana"}
	require.ElementsMatch(t, append([]string{"clickhouse"}, ours...), load(t, oneNode).ServiceNames())
	require.ElementsMatch(t, append([]string{"keeper-1", "keeper-2", "keeper-3", "clickhouse-1-1", "clickhouse-1-2", "clickhouse-2-1", "clickhouse-2-2"}, ours...),
		load(t, cluster).ServiceNames())
}

func TestComposeParsesAndMountsWhatExists(t *testing.T) { each(t, mountsExist) }

func mountsExist(t *testing.T, project *types.Project) {
	mounts := 0
	for name, service := range project.Services {
		for _, v := range service.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			mounts++
			_, err := os.Stat(v.Source)
			require.NoError(t, err, "service %s mounts a file that does not exist", name)
		}
		if service.Build != nil {
			dockerfile := filepath.Join(service.Build.Context, service.Build.Dockerfile)
			text, err := os.ReadFile(dockerfile)
			require.NoError(t, err)
			require.Contains(t, string(text), " AS "+service.Build.Target+"\n", "%s has no stage %s", dockerfile, service.Build.Target)
		}
	}
	require.GreaterOrEqual(t, mounts, 4)
}

// What the compose file sets for the collector must be what the mounted config reads.
func TestCollectorsEnvironmentIsReadByItsConfig(t *testing.T) { each(t, environmentIsRead) }

func environmentIsRead(t *testing.T, project *types.Project) {
	text, err := os.ReadFile("../otelcol-config.yaml")
	require.NoError(t, err)
	collector := project.Services["collector"]
	set := 0
	for name := range collector.Environment {
		if strings.HasPrefix(name, "DRIFTLINE_") {
			require.Contains(t, string(text), "${env:"+name+":-", "the config does not read %s", name)
			set++
		}
	}
	for _, name := range []string{"CLICKHOUSE_ENDPOINT", "CLICKHOUSE_USERNAME", "CLICKHOUSE_PASSWORD", "OTLP_GRPC_ENDPOINT", "OTLP_HTTP_ENDPOINT", "QUEUE_DIR"} {
		require.Contains(t, collector.Environment, "DRIFTLINE_"+name)
	}
	require.GreaterOrEqual(t, set, 6)
	queue := *collector.Environment["DRIFTLINE_QUEUE_DIR"]
	dockerfile, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	require.Contains(t, string(dockerfile), "--chown=65532:65532 /out/queue "+queue+"\n", "the queue's folder belongs to nobody who runs there")
}

func TestDetectdsFlagsExist(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "detectd")
	out, err := exec.Command("go", "build", "-o", binary, "../cmd/detectd").CombinedOutput()
	require.NoError(t, err, string(out))
	each(t, func(t *testing.T, project *types.Project) {
		for _, name := range []string{"detectd", "migrate"} {
			var verbs []string
			for _, word := range project.Services[name].Command {
				if strings.HasPrefix(word, "--") {
					break
				}
				verbs = append(verbs, word)
			}
			help, err := exec.Command(binary, append(verbs, "--help")...).CombinedOutput()
			require.NoError(t, err, string(help))
			for _, word := range project.Services[name].Command {
				if strings.HasPrefix(word, "--") {
					require.Contains(t, string(help), word+" ")
				}
			}
		}
	})
}

func TestAlertmanagerGroupsByLabelsThatAlertsHave(t *testing.T) {
	var config struct {
		Route struct {
			GroupBy []string `yaml:"group_by"`
		}
	}
	read(t, "alertmanager/alertmanager.yml", &config)
	require.NotEmpty(t, config.Route.GroupBy)
	require.Subset(t, detector.LabelNames, config.Route.GroupBy)
}

func TestComposePublishesOnLoopbackOnly(t *testing.T) {
	each(t, func(t *testing.T, project *types.Project) {
		for name, service := range project.Services {
			for _, p := range service.Ports {
				require.Equal(t, "127.0.0.1", p.HostIP, "service %s publishes port %s to other machines", name, p.Published)
			}
		}
	})
}

func TestComposeNeedsAPassword(t *testing.T) {
	for _, file := range []string{oneNode, cluster} {
		options, err := cli.NewProjectOptions([]string{file}, cli.WithEnv(nil))
		require.NoError(t, err)
		_, err = options.LoadProject(context.Background())
		require.ErrorContains(t, err, "set CLICKHOUSE_PASSWORD", file)
	}
}

func TestProvisioningNamesWhatTheComposeFileMounts(t *testing.T) { each(t, provisioningIsMounted) }

func provisioningIsMounted(t *testing.T, project *types.Project) {
	grafana := project.Services["grafana"]
	targets := map[string]string{}
	for _, v := range grafana.Volumes {
		targets[v.Target] = v.Source
	}
	var provider struct {
		Providers []struct{ Options struct{ Path string } }
	}
	read(t, "grafana/provisioning/dashboards/driftline.yml", &provider)
	folder := targets[provider.Providers[0].Options.Path]
	require.NotEmpty(t, folder, "the dashboards' provider reads a folder that is not mounted")
	boards, err := filepath.Glob(filepath.Join(folder, "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, boards)

	var sources struct {
		Datasources []struct {
			UID      string
			Type     string
			JSONData map[string]any    `yaml:"jsonData"`
			Secure   map[string]string `yaml:"secureJsonData"`
		}
	}
	read(t, "grafana/provisioning/datasources/clickhouse.yml", &sources)
	ds := sources.Datasources[0]
	require.Equal(t, "grafana-clickhouse-datasource", ds.Type)
	require.Contains(t, *grafana.Environment["GF_PLUGINS_PREINSTALL"], ds.Type)
	for _, value := range ds.Secure {
		require.True(t, strings.HasPrefix(value, "$"), "a secret stands in the file")
		require.Contains(t, grafana.Environment, strings.TrimPrefix(value, "$"))
	}
	traces, ok := ds.JSONData["traces"].(map[string]any)
	require.True(t, ok)
	require.Equal(t, true, traces["otelEnabled"], "then no column needs to be mapped")
	var views []string
	for _, v := range schema.Views() {
		views = append(views, v.Name)
	}
	require.Contains(t, views, traces["defaultTable"])
	require.Contains(t, views, traces["defaultTable"].(string)+"_trace_id_ts", "the plugin looks up a trace's time there")
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into))
}
