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
	"agents/maker.prompt": "---\nname: maker\ndescription: Makes files\nmodel: scripted/maker\ntools: [write, bash]\nsandbox: {mode: host, network: true}\n---\nDo the task.\n",
	"agents/home.prompt":  "---\nname: home\ndescription: Makes files\nmodel: scripted/maker\ntools: [write, bash]\nsandbox: {mode: host, network: true}\nartifacts: {mode: local}\n---\nDo the task.\n",
	"agents/shy.prompt":   "---\nname: shy\ndescription: Makes files\nmodel: scripted/maker\ntools: [write, bash]\nsandbox: {mode: host, network: true}\nartifacts: {capture: false}\n---\nDo the task.\n",
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
		d.want(5, nil, "artifacts", "list", "nothing")
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
		d.want(5, words{"not found"}, "artifacts", "get", "made", "nothing.md", "--to", to)
		d.want(2, nil, "artifacts", "get", "made", "--stdout")
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
}
