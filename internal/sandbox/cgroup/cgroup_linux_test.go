package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
)

// filesOf are the files that a controller of version 2 gives to a group below the root; see the kernel's cgroup-v2.rst.
var filesOf = map[string][]string{
	"":       {"cgroup.procs", "cgroup.controllers", "cgroup.subtree_control", "cgroup.events", "cgroup.kill"},
	"cpu":    {"cpu.max", "cpu.weight"},
	"memory": {"memory.max", "memory.high", "memory.swap.max", "memory.oom.group", "memory.peak", "memory.events", "memory.current"},
	"pids":   {"pids.max", "pids.current", "pids.peak"},
	"io":     {"io.max", "io.stat"},
}

// v2 is a directory that behaves as a tree of version 2 does: a group has the files of the controllers that its parent
// hands down, one can hand down only what it has, and one that holds processes hands nothing down.
type v2 struct {
	t    *testing.T
	root string
	// busy groups hold processes.
	busy map[string]bool
	// wrote are all writes, as "directory below the root/file=value".
	wrote []string
}

func newV2(t *testing.T, has string) *v2 {
	t.Helper()
	k := &v2{t: t, root: t.TempDir(), busy: map[string]bool{}}
	k.fill(k.root, has)
	return k
}

func (k *v2) fill(dir, has string) {
	k.t.Helper()
	names := slices.Clone(filesOf[""])
	names = append(names, "cpu.stat") // each group has it
	for name := range strings.FieldsSeq(has) {
		names = append(names, filesOf[name]...)
	}
	for _, name := range names {
		k.write(dir, name, "")
	}
	k.write(dir, "cgroup.controllers", has)
}

func (k *v2) write(dir, name, text string) {
	k.t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		k.t.Fatal(err)
	}
}

func (k *v2) mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	k.fill(dir, text(filepath.Dir(dir), "cgroup.subtree_control"))
	return nil
}

func (k *v2) put(dir, file, value string) error {
	at := filepath.Join(dir, file)
	if _, err := os.Stat(at); err != nil {
		return err
	}
	if name, ok := strings.CutPrefix(value, "+"); ok && file == "cgroup.subtree_control" {
		switch {
		case k.busy[dir]:
			return fmt.Errorf("write %s: device or resource busy", at)
		case !slices.Contains(strings.Fields(text(dir, "cgroup.controllers")), name):
			return fmt.Errorf("write %s: %w", at, os.ErrNotExist)
		}
		value = strings.TrimSpace(text(dir, file) + " " + name)
	}
	k.write(dir, file, value)
	k.wrote = append(k.wrote, strings.TrimPrefix(at, k.root+"/")+"="+value)
	return nil
}

func (k *v2) end(dir string, _ time.Time) error { return os.RemoveAll(dir) }

// driver finds the tree as the group "/service" of a machine would be found.
func (k *v2) driver() *Driver {
	k.t.Helper()
	dir := k.t.TempDir()
	k.write(dir, "cgroup", "0::/service\n")
	k.write(dir, "mountinfo", "24 1 0:22 / /proc rw - proc proc rw\n30 23 0:26 /service "+k.root+" rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n")
	return find(filepath.Join(dir, "cgroup"), filepath.Join(dir, "mountinfo"), kernel{k.mkdir, k.put, k.end})
}

func (k *v2) want(files map[string]string) {
	k.t.Helper()
	for file, want := range files {
		if got := text(k.root, file); got != want {
			k.t.Errorf("%s: got %q, want %q; written: %q", file, got, want, k.wrote)
		}
	}
}

func TestVersion2(t *testing.T) {
	t.Parallel()
	t.Run("SBX-12 limits are written where version 2 reads them", func(t *testing.T) {
		t.Parallel()
		k := newV2(t, "cpuset cpu io memory pids")
		d := k.driver()
		if !d.Works() || !d.Measures() || d.Version() != "v2" || !slices.Equal(d.Directories(), []string{k.root}) {
			t.Fatalf("got %q in %v, why %q", d.Version(), d.Directories(), d.why)
		}
		for _, l := range []sandbox.Isolation{sandbox.LimitCPU, sandbox.LimitMemory, sandbox.LimitPIDs} {
			if err := d.Has(l); err != nil {
				t.Errorf("%s: %v", l, err)
			}
		}
		g, err := d.New("box", sandbox.Limits{CPU: 1.5, Memory: 64 << 20, PIDs: 100})
		if err != nil {
			t.Fatal(err)
		}
		k.want(map[string]string{"cgroup.subtree_control": "cpu memory pids io", "box/cpu.max": "150000 100000", "box/memory.max": "67108864",
			"box/memory.swap.max": "0", "box/memory.oom.group": "1", "box/pids.max": "100"})
		c, err := g.Child()
		if err != nil {
			t.Fatal(err)
		}
		k.want(map[string]string{"box/cgroup.subtree_control": "memory io", "box/box-1/memory.max": "", "box/cgroup.procs": ""})
		if err := c.Add(4711); err != nil {
			t.Fatal(err)
		}
		k.want(map[string]string{"box/box-1/cgroup.procs": "4711", "box/cgroup.procs": ""})
		if err := g.Remove(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(k.root, "box")); !os.IsNotExist(err) {
			t.Errorf("after Remove: got %v", err)
		}
	})
	t.Run("SBX-16 usage is read where version 2 tells it", func(t *testing.T) {
		t.Parallel()
		k := newV2(t, "cpu io memory pids")
		g, err := k.driver().New("box", sandbox.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := g.Child()
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(k.root, "box/box-1")
		k.write(at, "cpu.stat", "usage_usec 5000\nuser_usec 3000\nsystem_usec 2000\nnr_periods 0\n")
		k.write(at, "memory.peak", "1048576\n")
		k.write(at, "memory.events", "low 0\nhigh 0\nmax 12\noom 2\noom_kill 1\noom_group_kill 1\n")
		k.write(at, "io.stat", "8:0 rbytes=4096 wbytes=512 rios=1 wios=1 dbytes=0 dios=0\n8:16 rbytes=1 wbytes=2 rios=1 wios=1 dbytes=0 dios=0\n")
		want := Usage{User: 3 * time.Millisecond, System: 2 * time.Millisecond, MaxMemory: 1 << 20, ReadBytes: 4097, WriteBytes: 514, Killed: 1}
		if got := c.Usage(); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
	t.Run("SBX-20 with memory and pids alone, as users are given them, their limits hold and a processor's is refused", func(t *testing.T) {
		t.Parallel()
		k := newV2(t, "memory pids")
		d := k.driver()
		if err := d.Has(sandbox.LimitCPU); err == nil || d.Measures() || !d.Works() {
			t.Errorf("cpu: got %v, measures %v, works %v", err, d.Measures(), d.Works())
		}
		g, err := d.New("box", sandbox.Limits{Memory: 8 << 20, PIDs: 8})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Child(); err != nil {
			t.Fatal(err)
		}
		k.want(map[string]string{"box/memory.max": "8388608", "box/pids.max": "8", "box/cgroup.subtree_control": "memory"})
		if _, err := d.New("fast", sandbox.Limits{CPU: 1}); err == nil {
			t.Error("a limit without its controller was taken")
		}
		if _, err := os.Stat(filepath.Join(k.root, "fast")); !os.IsNotExist(err) {
			t.Errorf("what was refused is left: %v", err)
		}
	})
	t.Run("SBX-20 a group with processes of its own hands nothing down, and says what to do", func(t *testing.T) {
		t.Parallel()
		k := newV2(t, "cpu memory pids")
		k.busy[k.root] = true
		d := k.driver()
		if err := d.Has(sandbox.LimitMemory); err == nil || !strings.Contains(err.Error(), "delegated") || d.Works() || d.Version() != "" {
			t.Errorf("got %v, works %v, version %q", err, d.Works(), d.Version())
		}
	})
	t.Run("SBX-17 the end of a group closes it to forks and kills it whole", func(t *testing.T) {
		t.Parallel()
		k := newV2(t, "pids")
		if err := End(k.root, time.Now().Add(-time.Second)); err == nil {
			t.Error("a group that cannot be removed was called removed")
		}
		k.want(map[string]string{"pids.max": "0", "cgroup.kill": "1"})
	})
}
