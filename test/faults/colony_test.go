//go:build slow

package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// exampleDir has the agents, scripts, items and repository of the colony, which docs/tutorials describe.
const exampleDir = "../../examples/colony"

// guests are the programs of others in the colony, by the runtime that they are: ours speaks the protocol of each.
const (
	opencodeEntry = `name = "opencode"
kind = "acp"
command = "%[1]s"
env = {INSPAN_FAKE_AGENT = "acp", INSPAN_FAKE_SESSIONS = "%[2]s"}
session = {resume = true}
capabilities = {gate_tools = "native"}
`
	claudeEntry = `name = "claude"
kind = "cli"
command = "%[1]s"
env = {INSPAN_FAKE_AGENT = "claude", INSPAN_FAKE_SESSIONS = "%[2]s"}
headless = {parser = "claude"}
session = {resume = true}
capabilities = {gate_tools = "native"}
`
)

// What the guests are told to do; they know no items. The one that repeats stays in the middle of its work until it is
// killed, and goes on in its session.
const (
	initialsTask = "!write initials.sh for w in $1; do printf %.1s \"$w\"; done; echo\n" +
		"!bash mkdir -p notes && echo Initials is there. >> notes/initials.md\n!say It is done."
	vowelsTask = "!write vowels.sh printf %s \"$1\" | tr -cd aeiou | wc -c\n" +
		"!bash mkdir -p notes && echo Vowels is there. >> notes/vowels.md\n!say It is done."
	repeatTask = "!write repeat.sh for i in $(seq $2); do all=\"$all $1\"; done; echo $all\n" +
		"!stay\n!bash mkdir -p notes && echo Repeat is there. >> notes/repeat.md\n!say It is done."
	clipTask = "!write clip.sh printf %.$2s \"$1\"\n" +
		"!bash mkdir -p notes && echo Clip is there. >> notes/clip.md\n!say It is done."
)

// The named agents of the colony, and the definition of each: three of ours and two programs of others.
const (
	ada, bob, cid = "text/lead/ada", "text/worker/bob", "text/worker/cid"
	dot, eve      = "text/guest/dot", "text/guest/eve"
)

func definitions() map[string]string {
	return map[string]string{ada: "coder", bob: "coder", cid: "coder", dot: "guest-opencode", eve: "guest-claude"}
}

// colony is the play of ten items, five agents, one merge queue, and one kill -9 of everything.
type colony struct {
	*failover
	repo  string
	items map[string]string // ids by title
	// actions are what the test did, beside what the logs have.
	actions []moment
	killed  time.Time
}

// moment is a line of the transcript.
type moment struct {
	at   time.Time
	line string
}

// TestColony is the play of a colony (make colony): five named agents, two of which are programs of others, bring ten
// items of a list to main through mail, a gate and a merge queue, and everything is killed with -9 in the middle.
func TestColony(t *testing.T) {
	t.Setenv("INSPAN_APPROVER", "anna")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	cmd := "github.com/inspan/inspan/cmd/"
	p := &colony{failover: &failover{t: t, ctx: ctx, fleet: newFleet(t, fleetConfig{nodes: 1, replicas: 1,
		bin: binaries(t, cmd+"executor", cmd+"toolrunner", cmd+"gatekeeper", cmd+"inspan", "github.com/inspan/inspan/test/faults/guest")})}}
	p.plain, p.patience = true, 5*time.Minute
	p.found()
	p.start("n1")
	setUp(ctx, t, p.fleet, topology.Limits{})
	p.seat = p.connect(ctx, "operator", 0)
	var err error
	if p.c, err = operator.On(p.seat.conn, stationName); err != nil {
		t.Fatal(err)
	}
	for _, s := range p.services {
		p.start(s)
	}
	p.await("the agents are registered", func() bool { all, err := p.c.Agents(ctx); return err == nil && len(all) == 4 })
	t.Run("WORK-2 WORK-4 WORK-5 DLV-1 DLV-2 DLV-3 MSG-1 PLUS-12a GATE-9 SAFE-7 PROP-15 ten items of a list land on main through five agents, and kill -9 of everything loses and repeats nothing", func(t *testing.T) {
		p.t = t
		p.play()
		p.judge()
	})
	for _, x := range p.panics() {
		t.Error(x)
	}
}

// git runs the program in a folder and returns what it prints.
func (p *colony) git(dir string, args ...string) string {
	p.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=anna", "-c", "user.email=anna@example.com"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// found makes the folders of the agents, the runtimes and the repository.
func (p *colony) found() {
	p.t.Helper()
	for _, dir := range []string{"agents", "scripts", "project"} {
		if err := os.CopyFS(filepath.Join(p.dir, "example", dir), os.DirFS(filepath.Join(exampleDir, dir))); err != nil {
			p.t.Fatal(err)
		}
	}
	b, err := os.ReadFile(filepath.Join(exampleDir, "scripts", "coder.yaml"))
	if err != nil {
		p.t.Fatal(err)
	}
	// It is killed in the middle of that, however slow the machine is.
	p.write("example/scripts/coder.yaml", strings.Replace(string(b), "sleep 5", "sleep 100", 1))
	list, err := os.ReadFile(filepath.Join(exampleDir, "tasks.md"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.write("tasks.md", string(list))
	for _, dir := range []string{"sessions", "example/agents/runtimes"} {
		if err := os.MkdirAll(filepath.Join(p.dir, dir), 0o755); err != nil {
			p.t.Fatal(err)
		}
	}
	for name, entry := range map[string]string{"opencode": opencodeEntry, "claude": claudeEntry} {
		p.write("example/agents/runtimes/"+name+".toml", fmt.Sprintf(entry, filepath.Join(p.bin, "guest"), filepath.Join(p.dir, "sessions")))
	}
	seed := filepath.Join(p.dir, "example", "project")
	p.repo = filepath.Join(p.dir, "text.git")
	p.git(p.dir, "init", "--quiet", "--bare", "--initial-branch=main", p.repo)
	p.git(seed, "init", "--quiet", "--initial-branch=main")
	p.git(seed, "add", ".")
	p.git(seed, "commit", "--quiet", "-m", "A package")
	p.git(seed, "push", "--quiet", p.repo, "main")
	p.env = func(string) []string {
		return []string{"INSPAN_AGENTS=" + filepath.Join(p.dir, "example", "agents"), "INSPAN_SCRIPTS=" + filepath.Join(p.dir, "example", "scripts"),
			"INSPAN_GIT_PROTOCOLS=file"}
	}
}

// note adds a line to the transcript.
func (p *colony) note(format string, args ...any) {
	p.actions = append(p.actions, moment{time.Now(), fmt.Sprintf(format, args...)})
}

// command carries out inspan and notes it.
func (p *colony) command(args ...string) string {
	p.t.Helper()
	out := p.cli(append([]string{"--wait", "2m"}, args...)...)
	first, _, _ := strings.Cut(strings.Join(args, " "), "\n")
	p.note("$ inspan %s", first)
	return out
}

// deliver gives an item to an agent.
func (p *colony) deliver(title, address string, task ...string) {
	p.t.Helper()
	args := []string{"deliver", p.items[title], address, "--queue", "main"}
	for _, text := range task {
		args = append(args, "--task", text)
	}
	p.command(args...)
}

func (p *colony) item(title string) events.WorkItem {
	w, err := client.NewWorkItems(p.c).Get(p.ctx, p.items[title])
	if err != nil {
		return events.WorkItem{} // the station may be down
	}
	return w
}

func (p *colony) box(address string) events.Mailbox {
	m, err := client.NewMail(p.c).Get(p.ctx, address)
	if err != nil {
		return events.Mailbox{Holder: &events.MailHolder{}} // the station may be down
	}
	return m
}

// released waits until items are on main and their agents have read so and are idle.
func (p *colony) released(titles ...string) {
	p.t.Helper()
	for _, title := range titles {
		p.await(title+" has landed", func() bool {
			d := p.item(title).Delivery
			return d != nil && d.Phase == events.DeliveryIsReleased
		})
	}
	for address := range definitions() {
		p.await(address+" has read that its work landed", func() bool {
			m := p.box(address)
			read := slices.ContainsFunc(m.Done, func(d events.DoneMail) bool { return d.State == events.MailIsAcknowledged })
			return read && m.Holder == nil && len(m.Pending) == 0 && m.Life.Work == nil
		})
	}
}

// held is the run that has an item.
func (p *colony) held(title string) string {
	p.t.Helper()
	id := ""
	p.await(title+" has a run", func() bool {
		b := p.item(title).Binding
		if b != nil && b.Started {
			id = b.Run
		}
		return id != ""
	})
	return id
}

// play has the colony do its work.
func (p *colony) play() {
	p.t.Helper()
	p.zero = time.Now()
	hold := filepath.Join(p.dir, "hold")
	p.command("work", "add", "--from", "tasks.md", "--label", "colony", "--accept", "./check")
	p.await("ten items are made", func() bool {
		all, err := client.NewWorkItems(p.c).List(p.ctx)
		p.items = map[string]string{}
		for _, w := range all {
			p.items[w.Spec.Title] = w.ID
		}
		return err == nil && len(p.items) == 10
	})
	for _, address := range []string{ada, bob, cid, dot, eve} {
		p.command("agents", "register", address, "--agent", definitions()[address])
	}
	p.command("queue", "add", "main", "--repo", "file://"+p.repo, "--branch", "main", "--agent", "lander",
		"--accept", "while test -e "+hold+"; do sleep 0.2; done; ./check")
	p.deliver("Reverse", ada)
	p.deliver("Title", bob)
	p.deliver("Words", cid)
	p.deliver("Initials", dot, initialsTask)
	p.deliver("Vowels", eve, vowelsTask)
	p.released("Reverse", "Title", "Words", "Initials", "Vowels")
	p.write("hold", "")
	gated := p.middle()
	p.killAll()
	if err := os.Remove(hold); err != nil {
		p.t.Fatal(err)
	}
	p.approve(gated)
	p.released("Separator", "Slug", "Longest", "Repeat", "Clip")
	p.await("all runs have ended", func() bool {
		all, err := p.c.Runs().List(p.ctx)
		return err == nil && !slices.ContainsFunc(all, func(i run.Info) bool { return !i.Status.Ended() })
	})
}

// middle brings each of the five agents, the mail and the merge queue into the middle of something, and returns the run
// that waits for a person.
func (p *colony) middle() (gated string) {
	p.t.Helper()
	p.deliver("Slug", bob)
	gated = p.held("Slug")
	p.when(gated, "a person is asked", func(s run.State) bool { return len(s.Waiting()) == 1 })
	p.note("%s waits for a person", bob)
	p.deliver("Separator", ada)
	p.deliver("Clip", eve, clipTask)
	p.deliver("Repeat", dot, repeatTask)
	p.await("the mail waits", func() bool { return len(p.box(bob).Pending) == 1 })
	p.note("mail of %s waits for %s", ada, bob)
	p.await("one entry is tested and one waits", func() bool {
		q, err := client.NewMergeQueues(p.c).Get(p.ctx, "main")
		return err == nil && len(q.Entries) == 2 && slices.ContainsFunc(q.Entries, func(e events.QueueEntry) bool { return e.State == events.EntryIsTaken })
	})
	p.note("the merge queue tests one branch, another one waits")
	p.when(p.held("Repeat"), "a program is in the middle of its work", func(s run.State) bool {
		for _, r := range run.All(s.ToolCallHistory) {
			if r.Parent != "" && r.Success {
				return true
			}
		}
		return false
	})
	p.note("%s is in the middle of its work", dot)
	p.deliver("Longest", cid)
	p.held("Longest")
	p.await("the slow command has changed a file", func() bool {
		found, err := filepath.Glob(filepath.Join(p.dir, "work", "session", "text_worker_cid", "notes", "longest.md"))
		return err == nil && len(found) == 1
	})
	p.note("%s is in the middle of a command that has changed a file", cid)
	return gated
}

// killAll ends all processes with -9 at once, and begins them again.
func (p *colony) killAll() {
	p.t.Helper()
	all := append(slices.Clone(p.services), "n1")
	p.fleet.mu.Lock()
	for _, name := range all {
		p.procs[name].wanted = false
		_ = p.procs[name].cmd.Process.Signal(syscall.SIGKILL) // one that is gone already is found below
	}
	p.fleet.mu.Unlock()
	for _, name := range all {
		<-p.procs[name].gone
	}
	p.killed = time.Now()
	p.note("kill -9 of %s", strings.Join(all, ", "))
	p.start("n1")
	for _, s := range p.services {
		p.start(s)
	}
	p.await("the station answers again", func() bool { _, err := p.c.Agents(p.ctx); return err == nil })
	p.note("all of it is started again")
}

// approve answers the gate of a run as any program can that speaks the protocol of NATS.
func (p *colony) approve(id string) {
	p.t.Helper()
	_, evs := p.state(id)
	var g *events.GateOpenedData
	for _, it := range evs {
		if opened, ok := it.Payload.(*events.GateOpenedData); ok {
			g = opened
		}
	}
	body, err := json.Marshal(map[string]string{"decision": "approve", "proposal_hash": g.ProposalHash})
	if err != nil {
		p.t.Fatal(err)
	}
	conn, err := net.Dial("tcp", p.nodes[0].address())
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "CONNECT {\"verbose\":false}\r\nPUB %s.anna %d\r\n%s\r\nPING\r\n", g.AnswerSubject, len(body), body)
	for in := bufio.NewScanner(conn); in.Scan(); {
		if strings.HasPrefix(in.Text(), "-ERR") {
			p.t.Fatal(in.Text())
		}
		if in.Text() == "PONG" {
			break
		}
	}
	p.note("published on %s.anna: %s", g.AnswerSubject, body)
}
