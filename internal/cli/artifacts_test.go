package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/client"
)

// makers are agents that make files: one keeps them in the store, one in its workspace, one switches capture off.
var makers = map[string]string{
	"agents/maker.prompt":  "---\nname: maker\ndescription: Makes files\nmodel: scripted/maker\ntools: [write, bash]\nsandbox: {mode: host, network: true}\n---\nDo the task.\n",
	"agents/home.prompt":   "---\nname: home\ndescription: Makes files\nmodel: scripted/maker\ntools: [write, bash]\nsandbox: {mode: host, network: true}\nartifacts: {mode: local}\n---\nDo the task.\n",
	"agents/shy.prompt":    "---\nname: shy\ndescription: Makes files\nmodel: scripted/maker\ntools: [write, bash]\nsandbox: {mode: host, network: true}\nartifacts: {capture: false}\n---\nDo the task.\n",
	"agents/reader.prompt": "---\nname: reader\ndescription: Reads files\nmodel: scripted/reader\ntools: [bash]\nsandbox: {mode: host, network: true}\n---\nDo the task.\n",
	"scripts/reader.yaml":  "turns:\n  - when: {turn: 1}\n    calls:\n      - {name: bash, input: {command: cat in/prices.csv}}\n  - when: {turn: 2}\n    text: \"{{result.1}}\"\n",
	"scripts/maker.yaml": `turns:
  - when: {turn: 1}
    calls:
      - {name: write, input: {path: out/report.md, content: "# done\n"}}
  - when: {turn: 2}
    calls:
      - {name: bash, input: {command: "echo '{}' > data.json; seq 1 20000"}}
  - when: {turn: 3}
    text: "done"
`,
}

func TestArtifacts(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for name, text := range makers {
		if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d.up()
	d.want(0, nil, "run", "maker", "make", "--id", "made")
	d.want(0, nil, "run", "home", "make", "--id", "home")
	d.want(0, nil, "run", "shy", "make", "--id", "shy")
	to := filepath.Join(d.dir, "got")
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(to, name))
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	t.Run("ART-2 list shows what a run made, for people and for programs", func(t *testing.T) {
		d.want(0, words{"ID", "PATH", "report.md", "data.json", "24 h more", "with the log"}, "artifacts", "list", "made")
		all := decode[[]client.Artifact](t, d.want(0, nil, "artifacts", "list", "made", "--json").out)
		if len(all) != 3 || all[0].Type != "log" || all[1].Path != "data.json" || all[2].Path != "out/report.md" || all[2].ExpiresAt == nil || all[2].Expired || all[2].SHA256 == "" {
			t.Errorf("%+v", all)
		}
		d.want(0, words{"The run has made no artifacts."}, "artifacts", "list", "shy")
		d.want(5, words{"inspan runs lists"}, "artifacts", "list", "nothing")
		if s := inspan(t, "__complete", "--server", d.station.URL(), "artifacts", "get", "made", "out"); !strings.HasPrefix(s.out, "out/report.md\t") {
			t.Errorf("completed: %q %s", s.out, s.err)
		}
	})
	t.Run("ART-2 get writes them into a folder, and over nothing that is there", func(t *testing.T) {
		d.want(0, words{"report.md", "data.json"}, "artifacts", "get", "made", "--to", to)
		if read("out/report.md") != "# done\n" || read("data.json") != "{}\n" {
			t.Errorf("%q %q", read("out/report.md"), read("data.json"))
		}
		logs, err := os.ReadDir(filepath.Join(to, "logs"))
		if err != nil || len(logs) != 1 || !strings.Contains(read("logs/"+logs[0].Name()), "\n19999\n") {
			t.Errorf("ART-12 %v, %v", logs, err)
		}
		d.want(1, words{"is there already", "--force"}, "artifacts", "get", "made", "report.md", "--to", to)
		d.want(0, nil, "artifacts", "get", "made", "report.md", "--to", to, "--force", "--json")
		if s := d.want(0, nil, "artifacts", "get", "made", "out/report.md", "--stdout"); s.out != "# done\n" {
			t.Errorf("%q", s.out)
		}
		d.want(5, words{"not found", "inspan artifacts list"}, "artifacts", "get", "made", "nothing.md", "--to", to)
		d.want(2, nil, "artifacts", "get", "made", "--stdout")
	})
	t.Run("ART-2 files of others beside it are not touched, and the longest name there can be is written", func(t *testing.T) {
		work := filepath.Join(d.dir, "store", "workspace")
		d.want(0, nil, "run", "maker", "make", "--id", "long", "--session", "long")
		full := filepath.Join(t.TempDir(), "long")
		if err := os.MkdirAll(full, 0o755); err != nil {
			t.Fatal(err)
		}
		part := filepath.Join(full, "data.json.part")
		from := filepath.Join(full, strings.Repeat("n", 252)+".md")
		for _, name := range []string{part, from} {
			if err := os.WriteFile(name, []byte("mine"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		d.want(0, nil, "artifacts", "put", "long", from, "--workspace", work)
		d.want(0, words{"data.json"}, "artifacts", "get", "long", "data.json", "--to", full)
		if b, err := os.ReadFile(part); err != nil || string(b) != "mine" {
			t.Errorf("%q, %v", b, err)
		}
		if all, err := os.ReadDir(full); err != nil || len(all) != 3 {
			t.Errorf("%d files, %v", len(all), err)
		}
	})
	t.Run("SAFE-12 a link in the folder leads nowhere else", func(t *testing.T) {
		outside := t.TempDir()
		trap := filepath.Join(d.dir, "trap")
		if err := os.Mkdir(trap, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, filepath.Join(trap, "out")); err != nil {
			t.Fatal(err)
		}
		d.want(1, nil, "artifacts", "get", "made", "report.md", "--to", trap, "--force")
		if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
			t.Errorf("%v, %v", left, err)
		}
	})
	t.Run("ART-6 ART-10 what is kept in the workspace alone is read there, as long as it is what it was", func(t *testing.T) {
		work := filepath.Join(d.dir, "store", "workspace")
		d.want(0, words{"in the workspace"}, "artifacts", "list", "home")
		if s := d.want(0, nil, "artifacts", "get", "home", "report.md", "--stdout", "--workspace", work); s.out != "# done\n" {
			t.Errorf("%q", s.out)
		}
		d.want(1, words{"--workspace"}, "artifacts", "get", "home", "report.md", "--stdout", "--workspace", to)
		if err := os.WriteFile(filepath.Join(work, "run", "home", "out", "report.md"), []byte("# dirt\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		d.want(1, words{"changed since"}, "artifacts", "get", "home", "report.md", "--stdout", "--workspace", work)
	})
	t.Run("ART-10 ART-13 put gives the runs of a session an input file, which the next one reads in its directory", func(t *testing.T) {
		work := filepath.Join(d.dir, "store", "workspace")
		d.want(0, nil, "run", "maker", "make", "--id", "first", "--session", "s")
		from := filepath.Join(t.TempDir(), "prices.csv")
		if err := os.WriteFile(from, []byte("bread 3\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		d.want(0, words{"in/prices.csv is in session/s"}, "artifacts", "put", "first", from, "--as", "in/prices.csv", "--workspace", work)
		d.want(1, words{"is there already", "--force", "--as"}, "artifacts", "put", "first", from, "--as", "in/prices.csv", "--workspace", work)
		got := decode[struct {
			Path, Workspace, SHA256 string
			Size                    int
		}](t, d.want(0, nil, "artifacts", "put", "first", from, "--workspace", work, "--json").out)
		if got.Path != "prices.csv" || got.Workspace != "session/s" || got.Size != 8 || len(got.SHA256) != 64 {
			t.Errorf("%+v", got)
		}
		d.want(0, nil, "run", "reader", "read", "--id", "second", "--session", "s")
		d.want(0, words{"bread 3"}, "logs", "second")
	})
	t.Run("SAFE-12 put writes nothing outside of a workspace, into no place of the harness, and for no one who cannot read it", func(t *testing.T) {
		work := filepath.Join(d.dir, "store", "workspace")
		from := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(from, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		outside := t.TempDir()
		if err := os.Symlink(outside, filepath.Join(work, "session", "s", "trap")); err != nil {
			t.Fatal(err)
		}
		for _, as := range []string{"../x", "/x", ".git/hooks/pre-commit", "a/.harness/x", ".GIT/config", ".session.lock", "a/.inspan-x", "a\nb"} {
			d.want(2, nil, "artifacts", "put", "first", from, "--as", as, "--workspace", work)
		}
		d.want(1, nil, "artifacts", "put", "first", from, "--as", "trap/x", "--workspace", work, "--force")
		d.want(1, words{"has ended", "--session"}, "artifacts", "put", "made", from, "--workspace", work)
		d.want(1, words{"--workspace"}, "artifacts", "put", "first", from, "--workspace", t.TempDir())
		d.want(1, words{"no regular file"}, "artifacts", "put", "first", t.TempDir(), "--workspace", work)
		d.want(5, nil, "artifacts", "put", "nothing", from, "--workspace", work)
		d.want(2, nil, "artifacts", "put", "first")
		if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
			t.Errorf("%v, %v", left, err)
		}
		follow := t.TempDir()
		if err := os.Mkdir(filepath.Join(follow, ".trees"), 0o755); err != nil {
			t.Fatal(err)
		}
		d.want(1, words{"follow"}, "artifacts", "put", "first", from, "--workspace", follow)
	})
}
