package agentfile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/pkg/events"
)

const systemRole = `
agent = "coder"
prompt_template = "You are {name} of {project}."
max_instances = 4
names = ["nux", "ada"]

[session]
pattern = "crew_{project}_{role}_{name}"
start_command = "built-in"

[env]
TEAM = "all"
AREA = "{project}"

[health]
ping_timeout = "2m"
stuck_threshold = "30m"
`

const projectRole = `
role = "worker"
max_instances = 2
[session]
work_dir = "{root}/services/{name}"
[env]
TEAM = "web"
[health]
consecutive_failures = 3
kill_cooldown = "1m"
`

func TestRoleEntries(t *testing.T) {
	t.Parallel()
	coder := "---\nmodel: scripted/x\ntools: [bash]\n---\nGo.\n"
	t.Run("ID-1 C32 each value of a role is that of its project, of all projects, or built in, and says from where", func(t *testing.T) {
		t.Parallel()
		all, warnings, err := agentfile.LoadDir(town(t, map[string]string{"coder.prompt": coder, "roles/worker.toml": systemRole,
			"web/worker/role.toml": projectRole, "roles/lead.toml": "agent = \"coder\"\n"}))
		if err != nil || len(warnings) != 0 {
			t.Fatal(err, warnings)
		}
		of := all["coder"].Roles
		web, any := events.RoleOf(of, "web/worker/nux"), events.RoleOf(of, "app/worker/nux")
		if len(of) != 3 || web == nil || any == nil || events.RoleOf(of, "web/other/nux") != nil {
			t.Fatalf("%+v", of)
		}
		if web.Name != "web/worker" || web.Max != 2 || any.Name != "worker" || any.Max != 4 || web.Env["TEAM"] != "web" || any.Env["TEAM"] != "all" ||
			web.Env["AREA"] != "{project}" || web.WorkDir != "services/{name}" || any.WorkDir != "" || web.Start != "built-in" ||
			web.Health != (events.RoleHealth{PingMS: 120_000, StuckMS: 1_800_000, Failures: 3, CooldownMS: 60_000}) || strings.Join(web.Names, " ") != "nux ada" {
			t.Errorf("%+v\n%+v", web, any)
		}
		if got := web.Fill(web.Pattern, "web/worker/nux"); got != "crew_web_worker_nux" {
			t.Errorf("the session is %s", got)
		}
		for key, want := range map[string]string{"max_instances": "project web/worker/role.toml:3", "agent": "system roles/worker.toml:2",
			"env.TEAM": "project web/worker/role.toml:7", "env.AREA": "system roles/worker.toml:13", "supervisory": "built-in"} {
			if web.From[key] != want {
				t.Errorf("%s is from %q, want %q", key, web.From[key], want)
			}
		}
		if lead := events.RoleOf(of, "web/lead/eve"); lead == nil || !lead.Supervisory || lead.Pattern != "{project}_{role}_{name}" || web.Supervisory {
			t.Errorf("%+v", lead)
		}
		alone, _, err := agentfile.LoadDir(town(t, map[string]string{"coder.prompt": coder}))
		if err != nil || alone["coder"].Digest == all["coder"].Digest {
			t.Errorf("the digest of a definition does not cover its roles: %v", err)
		}
	})
	t.Run("ID-3b ID-1 the runtime of an agent is that of its role, for all projects or for one", func(t *testing.T) {
		t.Parallel()
		prog := "---\nruntime: claude\ntools: [bash]\n---\nGo.\n"
		all, _, err := agentfile.LoadDir(town(t, map[string]string{"coder.prompt": coder, "prog.prompt": prog, "roles/worker.toml": "agent = \"coder\"\n",
			"web/worker/role.toml": "agent = \"prog\"\n[session]\nstart_command = \"runtime:claude\"\n"}))
		if err != nil {
			t.Fatal(err)
		}
		web, any := events.RoleOf(all["prog"].Roles, "web/worker/nux"), events.RoleOf(all["coder"].Roles, "app/worker/nux")
		if web == nil || web.Start != "runtime:claude" || any == nil || any.Start != "built-in" {
			t.Errorf("%+v, %+v", web, any)
		}
	})
	t.Run("ID-1 ID-9 what is wrong with a role has its line and says what to do, and no agent is given it", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]string{
			"agent = \"coder\"\nmax_instanses = 2":                                   `2: max_instanses: the key is not known; did you mean "max_instances"`,
			"agent = \"coder\"\nmax_instances = 0":                                   "2: max_instances: it is no quota (want 1 to 256, got 0)",
			"agent = \"coder\"\nmax_instances = -3":                                  "2: max_instances: it is no quota",
			"agent = \"coder\"\nmax_instances = \"two\"":                             "2: max_instances",
			"agent = \"codr\"":                                                       `1: agent: there is no such agent in the folder`,
			"max_instances = 1":                                                      "agent: the role names no definition",
			"agent = \"coder\"\nnames = [\"nux\", \"nux\"]":                          "2: names: the name is there twice",
			"agent = \"coder\"\nnames = [\"Nux\"]":                                   "2: names: it is no name",
			"agent = \"coder\"\nnames = [\"n/x\"]":                                   "2: names: it is no name",
			"agent = \"coder\"\nnames = [\"nüx\"]":                                   "2: names: it is no name",
			"agent = \"coder\"\nrole = \"lead\"":                                     "2: role: it is not the role of this file",
			"agent = \"coder\"\nprompt_template = \"Hi {nam}\"":                      "2: prompt_template: there is no such placeholder",
			"agent = \"coder\"\n[session]\npattern = \"{project}_{role}\"":           "3: session.pattern: two agents could have the same session",
			"agent = \"coder\"\n[session]\npattern = \"{name}\"":                     "3: session.pattern",
			"agent = \"coder\"\n[session]\npattern = \"{project}-{role}-{name}\"":    "3: session.pattern",
			"agent = \"coder\"\n[session]\npattern = \"../{project}_{role}_{name}\"": "3: session.pattern",
			"agent = \"coder\"\n[session]\nwork_dir = \"../x\"":                      "3: session.work_dir: it is no folder of the workspace",
			"agent = \"coder\"\n[session]\nwork_dir = \"~/x\"":                       "3: session.work_dir",
			"agent = \"coder\"\n[session]\nwork_dir = \"/etc\"":                      "3: session.work_dir",
			"agent = \"coder\"\n[session]\nwork_dir = \"a/\"":                        "3: session.work_dir",
			"agent = \"coder\"\n[session]\nwork_dir = \"{root}/{session}\"":          "3: session.work_dir",
			"agent = \"coder\"\n[session]\nwork_dir = \".GIT/hooks\"":                "3: session.work_dir",
			"agent = \"coder\"\n[session]\nstart_command = \"exec claude\"":          "3: session.start_command: it is no runtime",
			"agent = \"coder\"\n[session]\nstart_command = \"runtime:claude\"":       "3: session.start_command: the agent coder is not started in this way",
			"agent = \"coder\"\n[env]\nINSPAN_AGENT = \"web/lead/eve\"":              "3: env.INSPAN_AGENT: the station sets this variable",
			"agent = \"coder\"\n[env]\nnats_url = \"nats://x\"":                      "3: env.nats_url: the station sets",
			"agent = \"coder\"\n[env]\nLD_PRELOAD = \"x.so\"":                        "3: env.LD_PRELOAD",
			"agent = \"coder\"\n[env]\nGH_TOKEN = \"abc\"":                           "3: env.GH_TOKEN: a secret does not belong into a role",
			"agent = \"coder\"\n[env]\nX = \"secret:mine\"":                          "3: env.X: a secret does not belong",
			"agent = \"coder\"\n[env]\nX = \"a\\nb\"":                                "3: env.X: it is no value",
			"agent = \"coder\"\n[health]\nping_timeout = \"soon\"":                   "3: health.ping_timeout: it is no length of time",
			"agent = \"coder\"\n[health]\nstuck_threshold = \"-5m\"":                 "3: health.stuck_threshold",
			"agent = \"coder\"\n[health]\nconsecutive_failures = 0":                  "3: health.consecutive_failures",
			"agent = \"coder\"\nagent = \"coder\"":                                   "2",
		} {
			all, _, err := agentfile.LoadDir(town(t, map[string]string{"coder.prompt": coder, "web/worker/role.toml": text}))
			if err == nil || !strings.Contains(err.Error(), "web/worker/role.toml:"+want) && !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), "web/worker/role.toml") {
				t.Errorf("%q\n got %v\nwant %s", text, err, want)
			}
			if strings.Contains(fmt.Sprint(err), "abc") {
				t.Errorf("the value is shown: %v", err)
			}
			if len(all["coder"].Roles) != 0 {
				t.Errorf("%q: %+v", text, all["coder"].Roles)
			}
		}
	})
	t.Run("ID-1 ID-7 names of roles have one spelling, and none of another kind of address", func(t *testing.T) {
		t.Parallel()
		for _, file := range []string{"roles/Worker.toml", "roles/wörker.toml", "roles/a_b.toml", "queue/worker/role.toml", "role/of/role.toml", "all/x/role.toml", "Web/worker/role.toml"} {
			_, _, err := agentfile.LoadDir(town(t, map[string]string{"coder.prompt": coder, file: "agent = \"coder\"\n"}))
			if err == nil || !strings.Contains(err.Error(), file+": it is no role") {
				t.Errorf("%s: %v", file, err)
			}
		}
	})
}
