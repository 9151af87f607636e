package tidy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestShape(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	t.Run("DEPL-3 the folders and files that everybody looks for are there", func(t *testing.T) {
		t.Parallel()
		for _, p := range []string{"go.mod", "services/planner", "services/executor", "services/toolrunner", "services/gatekeeper", "services/persister",
			"pkg/events", "deploy/k8s", "compose.yaml", "Makefile"} {
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(p))); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("DEPL-4 the fixed choices are required directly and imported", func(t *testing.T) {
		t.Parallel()
		mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		for module, file := range map[string]string{
			"github.com/nats-io/nats.go": "internal/jet/connect.go", "github.com/nats-io/nats-server/v2": "internal/natsserver/server.go",
			"github.com/cloudevents/sdk-go/v2": "pkg/events/ce/event.go", "github.com/rs/zerolog": "internal/kernel/loop.go",
			"github.com/kelseyhightower/envconfig": "internal/service/config.go",
		} {
			direct := false
			for line := range strings.Lines(string(mod)) {
				direct = direct || strings.Contains(line, module+" v") && !strings.Contains(line, "// indirect")
			}
			code, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
			if err != nil || !direct || !strings.Contains(string(code), `"`+module) {
				t.Errorf("%s: required directly: %v, imported by %s: %v", module, direct, file, err)
			}
		}
	})
}
