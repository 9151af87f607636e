// Package deploy checks what is in this folder, compose.yaml and the Dockerfile against the program: names of
// variables, probes, rights and limits. It starts nothing: that the files do their work on a cluster is not proved
// here.
package deploy_test

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"

	"github.com/inspan/inspan/internal/sandbox/docker"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

var rewrite = flag.Bool("rewrite", false, "write nats/users.conf again")

const station = "default"

// users renders the accounts and users of a station.
func users(administrators ...topology.User) []byte {
	return configured(topology.Buckets{}.Accounts, administrators...)
}

// accounts render those of a station.
type accounts func(station string, outsiders []topology.User, password func(string) string, administrators ...topology.User) string

// asking are the accounts of a server that asks who people are.
func asking(station string, outsiders []topology.User, password func(string) string, administrators ...topology.User) string {
	return topology.Buckets{}.CalloutAccounts(station, "$NATS_CALLOUT_ISSUER", outsiders, password, administrators...)
}

func configured(accounts accounts, administrators ...topology.User) []byte {
	return []byte("# Made from internal/topology: go test ./deploy -run Users -rewrite. Station \"" + station + "\".\n" +
		"# Passwords come from the environment of the server; each begins with a letter.\n" +
		accounts(station, append(topology.Buckets{}.ShippedOutsiders(station), topology.Buckets{}.Consoles(station)...), variable, administrators...))
}

// variable holds the password of a user, in the server's environment.
func variable(user string) string {
	if topology.OfConsole(user) { // only the gateway has it, for all of them
		user = "console"
	}
	return "$NATS_" + strings.ToUpper(user) + "_PASSWORD"
}

func TestUsers(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-6 the server's users are those of the table", func(t *testing.T) {
		t.Parallel()
		running := users(topology.Setup(station))
		upgrading := users(topology.Setup(station), topology.Upgrade(station))
		for path, want := range map[string][]byte{"nats/users.conf": running, "k8s/users.conf": running, "nats/upgrade.conf": upgrading, "k8s/upgrade/upgrade.conf": upgrading,
			"nats/callout.conf": configured(asking, topology.Setup(station)), "k8s/callout/callout.conf": configured(asking, topology.Setup(station))} {
			if *rewrite {
				if err := os.WriteFile(path, want, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got := read(t, path); !bytes.Equal(got, want) {
				t.Errorf("%s is not what the table says: run go test ./deploy -run Users -rewrite", path)
			}
		}
	})
	t.Run("PLUS-9 the listener for WebSocket takes no web page, and the cookies of a gateway", func(t *testing.T) {
		t.Parallel()
		for _, path := range []string{"nats/nats.conf", "k8s/nats.conf"} {
			for _, want := range []string{"allowed_origins: [\"" + topology.NoPage + "\"]", "user_cookie: " + topology.UserCookie + "\n", "pass_cookie: " + topology.PasswordCookie + "\n", "token_cookie: " + topology.TokenCookie + "\n"} {
				if !strings.Contains(string(read(t, path)), want) {
					t.Errorf("%s lacks %s", path, want)
				}
			}
		}
	})
	t.Run("SAFE-5 the server of a station that runs knows no user who may change or erase a stream", func(t *testing.T) {
		t.Parallel()
		for _, path := range []string{"nats/users.conf", "k8s/users.conf"} {
			for line := range strings.Lines(string(read(t, path))) {
				for _, verb := range []string{"STREAM.UPDATE.", "STREAM.DELETE.", "STREAM.PURGE.", "STREAM.MSG.DELETE.", "STREAM.RESTORE."} {
					if strings.Contains(line, verb) && !strings.Contains(line, "PURGE.OBJ_"+topology.ArtifactBucket) {
						t.Errorf("%s: %s", path, strings.TrimSpace(line))
					}
				}
			}
		}
		for path, wants := range map[string][]string{"upgrade.yaml": {"NATS_UPGRADE_PASSWORD", "./deploy/nats/upgrade.conf:/etc/nats/users.conf:ro", "INSPAN_NATS_USER: " + topology.UpgradeUser},
			"callout.yaml":                   {"NATS_CALLOUT_PASSWORD", "NATS_CALLOUT_ISSUER", "./deploy/nats/callout.conf:/etc/nats/users.conf:ro", "INSPAN_NATS_USER: " + topology.CalloutUser},
			"k8s/callout/kustomization.yaml": {"NATS_CALLOUT_PASSWORD", "NATS_CALLOUT_ISSUER", "users.conf=callout.conf"},
			"k8s/upgrade/kustomization.yaml": {"NATS_UPGRADE_PASSWORD", "users.conf=upgrade.conf", "value: " + topology.UpgradeUser}} {
			for _, want := range wants {
				if !strings.Contains(string(read(t, path)), want) {
					t.Errorf("%s lacks %s", path, want)
				}
			}
		}
	})
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// manifest is what these tests look at in an object of Kubernetes.
type manifest struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name   string            `yaml:"name"`
		Labels map[string]string `yaml:"labels"`
	} `yaml:"metadata"`
	Automount *bool             `yaml:"automountServiceAccountToken"`
	Data      map[string]string `yaml:"data"`
	Spec      struct {
		Replicas    int      `yaml:"replicas"`
		AccessModes []string `yaml:"accessModes"`
		Selector    selector `yaml:"selector"`
		Template    struct {
			Metadata struct {
				Labels map[string]string `yaml:"labels"`
			} `yaml:"metadata"`
			Spec pod `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

type selector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

type pod struct {
	ServiceAccount string `yaml:"serviceAccountName"`
	Automount      *bool  `yaml:"automountServiceAccountToken"`
	Grace          int    `yaml:"terminationGracePeriodSeconds"`
	Security       struct {
		RunAsNonRoot bool `yaml:"runAsNonRoot"`
		Seccomp      struct {
			Type string `yaml:"type"`
		} `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	Containers []container `yaml:"containers"`
}

type container struct {
	Name, Image string
	Env         []setting `yaml:"env"`
	Liveness    *probe    `yaml:"livenessProbe"`
	Readiness   *probe    `yaml:"readinessProbe"`
	Resources   struct {
		Requests map[string]string `yaml:"requests"`
		Limits   map[string]string `yaml:"limits"`
	} `yaml:"resources"`
	Security struct {
		Escalation   *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRoot bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities struct {
			Drop []string `yaml:"drop"`
		} `yaml:"capabilities"`
	} `yaml:"securityContext"`
}

type setting struct{ Name, Value string }

type probe struct {
	HTTP struct{ Path string } `yaml:"httpGet"`
}

// manifests reads every object that the kustomization names.
func manifests(t *testing.T) []manifest {
	t.Helper()
	var k struct{ Resources []string }
	if err := yaml.Unmarshal(read(t, "k8s/kustomization.yaml"), &k); err != nil {
		t.Fatal(err)
	}
	var all []manifest
	for _, name := range k.Resources {
		all = append(all, objects(t, filepath.Join("k8s", name))...)
	}
	return all
}

// objects reads every object of a file.
func objects(t *testing.T, name string) []manifest {
	t.Helper()
	return parsedObjects(t, name, read(t, name))
}

func parsedObjects(t *testing.T, name string, text []byte) (all []manifest) {
	t.Helper()
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var m manifest
		err := d.Decode(&m)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if m.Kind == "" || m.Metadata.Name == "" {
			t.Fatalf("%s holds an object without a kind or a name", name)
		}
		all = append(all, m)
	}
}

func find(t *testing.T, all []manifest, kind, name string) manifest {
	t.Helper()
	for _, m := range all {
		if m.Kind == kind && m.Metadata.Name == name {
			return m
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return manifest{}
}

// known are the variables that the program reads.
func known() map[string]bool {
	names := map[string]bool{}
	for _, row := range service.Reference() {
		names[row.Name] = true
	}
	return names
}

func TestFiles(t *testing.T) {
	t.Parallel()
	t.Run("DEPL-3 everything that deploys is there, and every YAML file can be read", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"go.mod", "Makefile", "compose.yaml", "Dockerfile", "pkg/events", "deploy/k8s", "services/planner",
			"services/executor", "services/toolrunner", "services/gatekeeper", "services/persister"} {
			if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(name))); err != nil {
				t.Error(err)
			}
		}
		err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" || filepath.Base(filepath.Dir(path)) == "templates" {
				return err
			}
			if _, err := parser.ParseBytes(read(t, path), 0); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// TestSandboxImage compares the two ways to build the default image of sandboxes.
func TestSandboxImage(t *testing.T) {
	t.Parallel()
	t.Run("SBX-22 the default image is named once, and is made of one list, which has what agents that ship run", func(t *testing.T) {
		t.Parallel()
		name, _, _ := strings.Cut(docker.DefaultImage, ":")
		dockerfile, script := string(read(t, "../Dockerfile")), string(read(t, "images.sh"))
		for _, want := range []string{"AS sandbox\n", "deploy/sandbox.packages"} {
			if !strings.Contains(dockerfile, want) {
				t.Errorf("the Dockerfile lacks %q", want)
			}
		}
		for _, want := range []string{"sandbox)\n", "deploy/sandbox.packages", "pack " + name + " "} {
			if !strings.Contains(script, want) {
				t.Errorf("images.sh lacks %q", want)
			}
		}
		for _, doc := range []string{"../docs/sandbox-docker.md", "../docs/config.md"} {
			if !strings.Contains(string(read(t, doc)), docker.DefaultImage) {
				t.Errorf("%s does not name %s", doc, docker.DefaultImage)
			}
		}
		packages := strings.Split(string(read(t, "sandbox.packages")), "\n")
		for _, want := range []string{"bash", "git", "perl", "util-linux", "python3", "python3-pytest", "nodejs", "npm", "build-essential"} {
			if !slices.Contains(packages, want) {
				t.Errorf("the image lacks %s", want)
			}
		}
	})
}

func TestCluster(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	for _, role := range events.Services() {
		t.Run("DEPL-5 ECO-9a "+string(role)+" is a workload that scales by itself, with probes, limits, few rights and a disruption budget", func(t *testing.T) {
			t.Parallel()
			workload(t, all, find(t, all, "Deployment", string(role)))
		})
	}
	t.Run("DEPL-5 ECO-9a nats is a workload of three with the same care", func(t *testing.T) {
		t.Parallel()
		m := find(t, all, "StatefulSet", "nats")
		workload(t, all, m)
		if m.Spec.Replicas != 3 {
			t.Errorf("nats has %d replicas, want 3", m.Spec.Replicas)
		}
		if got := find(t, all, "ConfigMap", "inspan").Data["INSPAN_REPLICAS"]; got != "3" {
			t.Errorf("INSPAN_REPLICAS is %q, want 3: streams on all servers", got)
		}
	})
	t.Run("SAFE-6 a job sets the station up as the setup user, and nats has every password", func(t *testing.T) {
		t.Parallel()
		env := map[string]string{}
		for _, v := range find(t, all, "Job", "setup").Spec.Template.Spec.Containers[0].Env {
			env[v.Name] = v.Value
		}
		if env["INSPAN_NATS_USER"] != topology.SetupUser {
			t.Errorf("setup connects as %q", env["INSPAN_NATS_USER"])
		}
		var given []string
		for _, v := range find(t, all, "StatefulSet", "nats").Spec.Template.Spec.Containers[0].Env {
			given = append(given, "$"+v.Name)
		}
		for _, user := range append([]string{topology.SetupUser, "operator", "tools", events.Gateway}, names(events.Services())...) {
			if !slices.Contains(given, variable(user)) {
				t.Errorf("nats is not given %s", variable(user))
			}
		}
	})
	t.Run("DEPL-5 the toolrunners share one workspace that many may write", func(t *testing.T) {
		t.Parallel()
		if got := find(t, all, "PersistentVolumeClaim", "workspace").Spec.AccessModes; !slices.Equal(got, []string{"ReadWriteMany"}) {
			t.Errorf("access modes %v, want ReadWriteMany", got)
		}
	})
	t.Run("WS-13 DEPL-5 toolrunners that share a volume claim the workspaces in it", func(t *testing.T) {
		t.Parallel()
		for _, v := range find(t, all, "Deployment", "toolrunner").Spec.Template.Spec.Containers[0].Env {
			if v.Name == "INSPAN_WORKSPACE_MODE" && v.Value == "shared" {
				return
			}
		}
		t.Error("INSPAN_WORKSPACE_MODE is not shared")
	})
	t.Run("DEPL-5 every INSPAN_ name that a manifest sets is one that the program reads, and a user name is the role's", func(t *testing.T) {
		t.Parallel()
		names := known()
		for _, m := range all {
			for name := range m.Data {
				if strings.HasPrefix(name, "INSPAN_") && !names[name] {
					t.Errorf("%s %s sets %s, which no one reads", m.Kind, m.Metadata.Name, name)
				}
			}
			for _, c := range m.Spec.Template.Spec.Containers {
				for _, v := range c.Env {
					if strings.HasPrefix(v.Name, "INSPAN_") && !names[v.Name] {
						t.Errorf("%s sets %s, which no one reads", m.Metadata.Name, v.Name)
					}
					if v.Name == "INSPAN_NATS_USER" && v.Value != m.Metadata.Name {
						t.Errorf("%s connects as %s", m.Metadata.Name, v.Value)
					}
				}
			}
		}
	})
}

// workload checks what every workload needs.
func workload(t *testing.T, all []manifest, m manifest) {
	t.Helper()
	name, spec := m.Metadata.Name, m.Spec.Template.Spec
	if m.Spec.Replicas < 2 {
		t.Errorf("%s has %d replicas, want 2 or more", name, m.Spec.Replicas)
	}
	for _, label := range []string{"name", "instance", "component", "part-of"} {
		if m.Metadata.Labels["app.kubernetes.io/"+label] == "" || m.Spec.Template.Metadata.Labels["app.kubernetes.io/"+label] == "" {
			t.Errorf("%s lacks the label app.kubernetes.io/%s", name, label)
		}
	}
	budget := find(t, all, "PodDisruptionBudget", name)
	for _, s := range []selector{m.Spec.Selector, budget.Spec.Selector} {
		if len(s.MatchLabels) == 0 {
			t.Errorf("%s or its budget selects everything", name)
		}
		for k, v := range s.MatchLabels {
			if m.Spec.Template.Metadata.Labels[k] != v {
				t.Errorf("%s: the selector wants %s=%s, the pods have %q", name, k, v, m.Spec.Template.Metadata.Labels[k])
			}
		}
	}
	account := find(t, all, "ServiceAccount", spec.ServiceAccount)
	if account.Automount == nil || *account.Automount || spec.Automount == nil || *spec.Automount {
		t.Errorf("%s is given a token of the cluster", name)
	}
	if !spec.Security.RunAsNonRoot || spec.Security.Seccomp.Type != "RuntimeDefault" {
		t.Errorf("%s: pod security %+v, want runAsNonRoot and RuntimeDefault", name, spec.Security)
	}
	if spec.Grace < 40 {
		t.Errorf("%s is given %d s to end, want more than the drain of 25 s", name, spec.Grace)
	}
	for _, c := range spec.Containers {
		if c.Liveness == nil || c.Readiness == nil || c.Liveness.HTTP.Path == "" || c.Readiness.HTTP.Path == "" {
			t.Errorf("%s lacks a probe", name)
		} else if name != "nats" && (c.Liveness.HTTP.Path != "/healthz" || c.Readiness.HTTP.Path != "/readyz") {
			t.Errorf("%s probes %s and %s", name, c.Liveness.HTTP.Path, c.Readiness.HTTP.Path)
		}
		s := c.Security
		if s.Escalation == nil || *s.Escalation || !s.ReadOnlyRoot || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
			t.Errorf("%s: container security %+v", name, s)
		}
		if c.Resources.Requests["cpu"] == "" || c.Resources.Requests["memory"] == "" || c.Resources.Limits["memory"] == "" {
			t.Errorf("%s: resources %+v", name, c.Resources)
		}
	}
}

func TestCompose(t *testing.T) {
	t.Parallel()
	var compose struct {
		Services map[string]struct {
			Image       string
			Build       struct{ Target string }
			Environment map[string]string
			Command     []string
			DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
			Volumes     []string
			Ports       []string
			ReadOnly    bool     `yaml:"read_only"`
			CapDrop     []string `yaml:"cap_drop"`
		}
	}
	if err := yaml.Unmarshal(read(t, "../compose.yaml"), &compose); err != nil {
		t.Fatal(err)
	}
	t.Run("DEPL-5 compose has nats and the five services, each built from its target, under its own user", func(t *testing.T) {
		t.Parallel()
		dockerfile, names := string(read(t, "../Dockerfile")), known()
		for _, role := range events.Services() {
			s, ok := compose.Services[string(role)]
			if !ok {
				t.Fatalf("there is no %s", role)
			}
			if s.Build.Target != string(role) || !strings.Contains(dockerfile, " AS "+s.Build.Target+"\n") {
				t.Errorf("%s is built from %q, which the Dockerfile lacks or is another's", role, s.Build.Target)
			}
			if s.Environment["INSPAN_NATS_USER"] != string(role) || s.Environment["INSPAN_NATS_MONITOR"] == "" {
				t.Errorf("%s has the environment %v", role, s.Environment)
			}
			if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) {
				t.Errorf("%s: read_only %v, cap_drop %v", role, s.ReadOnly, s.CapDrop)
			}
			for name := range s.Environment {
				if strings.HasPrefix(name, "INSPAN_") && !names[name] {
					t.Errorf("%s sets %s, which no one reads", role, name)
				}
			}
		}
		if mode := compose.Services["toolrunner"].Environment["INSPAN_WORKSPACE_MODE"]; mode != "shared" {
			t.Errorf("toolrunners that share a volume have the workspace mode %q, want shared", mode)
		}
		for _, p := range compose.Services["nats"].Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("nats publishes %s to the whole network", p)
			}
		}
	})
	t.Run("SAFE-6 setup alone runs as the setup user, the services wait for it, and nats has every password", func(t *testing.T) {
		t.Parallel()
		s := compose.Services["setup"]
		if s.Environment["INSPAN_NATS_USER"] != topology.SetupUser || !slices.Equal(s.Command, []string{"setup"}) || s.Build.Target != "inspan" {
			t.Errorf("setup is %+v", s)
		}
		for _, role := range events.Services() {
			if compose.Services[string(role)].DependsOn["setup"].Condition != "service_completed_successfully" {
				t.Errorf("%s does not wait for setup", role)
			}
		}
		for _, user := range append([]string{topology.SetupUser, "operator", "tools", events.Gateway}, names(events.Services())...) {
			name := strings.TrimPrefix(variable(user), "$")
			if compose.Services["nats"].Environment[name] == "" || !bytes.Contains(read(t, "nats/passwords.example"), []byte(name+"=")) {
				t.Errorf("nats is not given %s", name)
			}
		}
	})
	t.Run("SAFE-1 nats runs with the configuration of this folder", func(t *testing.T) {
		t.Parallel()
		if got := compose.Services["nats"].Volumes; !slices.Contains(got, "./deploy/nats:/etc/nats:ro") {
			t.Errorf("nats mounts %v", got)
		}
	})
}

func names(roles []events.Service) []string {
	var all []string
	for _, r := range roles {
		all = append(all, string(r))
	}
	return all
}

func TestDurable(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"nats/nats.conf", "k8s/nats.conf"} {
		t.Run("SAFE-1 "+path+" syncs before it acknowledges and asks who is there", func(t *testing.T) {
			t.Parallel()
			var lines []string
			for line := range strings.Lines(string(read(t, path))) {
				lines = append(lines, strings.TrimSpace(line))
			}
			for _, want := range []string{"sync_interval: always", "include ./users.conf", "http: 0.0.0.0:8222"} {
				if !slices.Contains(lines, want) {
					t.Errorf("%s lacks the line %q", path, want)
				}
			}
		})
	}
	t.Run("SAFE-1 nothing that is shipped accepts a lazy server", func(t *testing.T) {
		t.Parallel()
		files := []string{"../compose.yaml", "../Dockerfile"}
		more, err := filepath.Glob("k8s/*.yaml")
		if err != nil || len(more) == 0 {
			t.Fatalf("manifests: %v, %v", more, err)
		}
		for _, path := range append(files, more...) {
			if bytes.Contains(read(t, path), []byte("ACCEPT_LAZY")) {
				t.Errorf("%s accepts a lazy server", path)
			}
		}
	})
}
