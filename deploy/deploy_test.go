// Package deploy checks what is in this folder, compose.yaml and the Dockerfile against the program: names of
// variables, probes, rights and limits. It starts nothing: that the files do their work on a cluster is not proved here.
package deploy_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

var rewrite = flag.Bool("rewrite", false, "write nats/users.conf again")

const station = "default"

// users renders the users of a station in the form of a server's configuration. The planner is also the one who sets
// the station up; the others look whether it is set up.
func users() []byte {
	var b bytes.Buffer
	b.WriteString("# Made from internal/topology: go test ./deploy -run Users -rewrite. Station \"" + station + "\".\n")
	b.WriteString("# Passwords come from the environment of the server; each begins with a letter.\n")
	b.WriteString("authorization {\n  users: [\n")
	var looks []string
	for _, role := range events.Services() {
		for _, c := range topology.Consumers(station, role) {
			looks = append(looks, "$JS.API.CONSUMER.INFO."+c.Stream+"."+c.Name)
		}
	}
	for _, role := range events.Services() {
		publish, subscribe := topology.Permissions(station, role)
		publish = append(publish, looks...)
		if role == events.Planner {
			p, s := topology.SetupPermissions(station)
			publish, subscribe = append(publish, p...), append(subscribe, s...)
		}
		user(&b, string(role), publish, subscribe, true)
	}
	publish, subscribe := topology.UserPermissions(station, "operator", topology.MayDispatch, topology.MayWatch, topology.MayApprove)
	subscribe = append(subscribe, "station."+station+".dead.*") // who dispatches must hear of refusals
	user(&b, "operator", publish, subscribe, false)
	b.WriteString("  ]\n}\n")
	return b.Bytes()
}

func user(b *bytes.Buffer, name string, publish, subscribe []string, responds bool) {
	fmt.Fprintf(b, "    {\n      user: %s\n      password: $NATS_%s_PASSWORD\n      permissions: {\n", name, strings.ToUpper(name))
	for _, side := range []struct {
		name     string
		subjects []string
	}{{"publish", publish}, {"subscribe", subscribe}} {
		fmt.Fprintf(b, "        %s: [\n", side.name)
		seen := map[string]bool{}
		for _, s := range side.subjects {
			if !seen[s] {
				seen[s] = true
				fmt.Fprintf(b, "          %q\n", s)
			}
		}
		b.WriteString("        ]\n")
	}
	if responds {
		b.WriteString("        allow_responses: true\n")
	}
	b.WriteString("      }\n    }\n")
}

func TestUsers(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-6 the server's users are those of the table", func(t *testing.T) {
		t.Parallel()
		for _, dir := range []string{"nats", "k8s"} {
			path := filepath.Join(dir, "users.conf")
			if *rewrite {
				if err := os.WriteFile(path, users(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got := read(t, path); !bytes.Equal(got, users()) {
				t.Errorf("%s is not what the table says: run go test ./deploy -run Users -rewrite", path)
			}
		}
	})
}
