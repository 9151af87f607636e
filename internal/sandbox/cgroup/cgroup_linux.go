// Package cgroup makes the control groups that bound and measure a sandbox.
//
// Promises: groups are made below the group that this process is in, never beside it, so that what bounds the service
// bounds its sandboxes too. Both generations are served: version 2 where its controllers are handed down, version 1
// where its hierarchies can be written. A limit that cannot be set is an error, never left out. Remove ends every
// process of a group, those that fork faster than they are killed included, before the group goes.
package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
)

const (
	// period of the processor quota, in microseconds: the kernel's own default.
	period = 100_000
	// endWait is how long Remove waits for killed processes to be gone, endTick how often it looks.
	endWait = 5 * time.Second
	endTick = time.Millisecond
)

// controllers that a group uses where they are there.
var controllers = [...]string{"cpu", "cpuacct", "memory", "pids", "blkio"}

// Driver makes groups on this machine. It is safe for concurrent use.
type Driver struct {
	// unified is the parent's directory of version 2; empty for version 1.
	unified string
	// parents are the parent's directories of version 1, by controller.
	parents map[string]string
	// has are the controllers that work.
	has map[string]bool
	// why is what is missing.
	why string
	kernel
}

// kernel is what the control groups' file system does: a directory that is made has its files at once.
type kernel struct {
	mkdir func(dir string) error
	put   func(dir, file, value string) error
	end   func(dir string, deadline time.Time) error
}

func thisKernel() kernel {
	return kernel{mkdir: func(dir string) error { return os.Mkdir(dir, 0o755) }, put: put, end: End}
}

// Find looks at the groups of this process. It changes nothing but, in version 2, which controllers its own group hands
// down. What does not work is told by Has.
func Find() *Driver { return find("/proc/self/cgroup", "/proc/self/mountinfo", thisKernel()) }

func find(self, mountinfo string, k kernel) *Driver {
	d := &Driver{parents: map[string]string{}, has: map[string]bool{}, kernel: k}
	own, err := os.ReadFile(self)
	mounts, err2 := os.ReadFile(mountinfo)
	if err := errors.Join(err, err2); err != nil {
		d.why = "the control groups of this process are unknown: " + err.Error()
		return d
	}
	for line := range strings.Lines(string(own)) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		names, path, _ := strings.Cut(rest, ":")
		if id == "0" && names == "" {
			d.useUnified(where(string(mounts), "cgroup2", "", path))
			continue
		}
		for name := range strings.SplitSeq(names, ",") {
			if slices.Contains(controllers[:], name) {
				d.useOld(name, where(string(mounts), "cgroup", name, path))
			}
		}
	}
	if d.unified != "" && len(d.parents) > 0 {
		d.unified = "" // the old hierarchies have the controllers
	}
	if len(d.has) == 0 && d.why == "" {
		d.why = "no control group is writable: run the toolrunner as a service with Delegate=yes, or as root"
	}
	return d
}

// where finds the directory of a group in proc_pid_mountinfo(5).
func where(mounts, kind, controller, path string) string {
	for line := range strings.Lines(mounts) {
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		front, back := strings.Fields(before), strings.Fields(after)
		if !ok || len(front) < 5 || len(back) < 3 || back[0] != kind {
			continue
		}
		if controller != "" && !slices.Contains(strings.Split(back[2], ","), controller) {
			continue
		}
		rel, err := filepath.Rel(front[3], path)
		if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			continue
		}
		return filepath.Join(front[4], rel)
	}
	return ""
}

func (d *Driver) useOld(controller, dir string) {
	if dir == "" || syscall.Access(dir, 2) != nil {
		return
	}
	d.parents[controller], d.has[controller] = dir, true
}

func (d *Driver) useUnified(dir string) {
	if dir == "" {
		return
	}
	names, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil || syscall.Access(dir, 2) != nil {
		return
	}
	for _, name := range []string{"cpu", "memory", "pids", "io"} {
		if !slices.Contains(strings.Fields(string(names)), name) {
			continue
		}
		down, _ := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control")) // what cannot be read is not handed down
		if !slices.Contains(strings.Fields(string(down)), name) {
			if err := d.put(dir, "cgroup.subtree_control", "+"+name); err != nil {
				d.why = fmt.Sprintf("the group %s cannot enable the controller %s for its children (a group that has processes cannot: start the service in a group below a delegated one): %v", dir, name, err)
				continue
			}
		}
		d.unified = dir
		switch name {
		case "io":
			d.has["blkio"] = true // as version 1 calls it
		case "cpu":
			d.has["cpu"], d.has["cpuacct"] = true, true
		default:
			d.has[name] = true
		}
	}
}

// Has reports whether a limit can be set: sandbox.LimitCPU, LimitMemory or LimitPIDs. Where not, the error says why.
func (d *Driver) Has(limit sandbox.Isolation) error {
	name := map[sandbox.Isolation]string{sandbox.LimitCPU: "cpu", sandbox.LimitMemory: "memory",
		sandbox.LimitPIDs: "pids"}[limit]
	if d.has[name] {
		return nil
	}
	why := d.why
	if why == "" {
		why = "the controller " + name + " is not there"
	}
	return errors.New(why)
}

// Works reports whether groups can be made, with at least one controller.
func (d *Driver) Works() bool { return len(d.has) > 0 }

// Measures reports whether groups tell what they used.
func (d *Driver) Measures() bool { return d.has["cpuacct"] }

// Version tells the generation: "v1", "v2", or "" where there is none.
func (d *Driver) Version() string {
	switch {
	case d.unified != "":
		return "v2"
	case len(d.parents) > 0:
		return "v1"
	}
	return ""
}

// Group is one control group, in version 1 one of the same name in each hierarchy. A nil Group bounds and counts
// nothing.
type Group struct {
	v2   bool
	name string
	// children counts the groups that Child made.
	children atomic.Int64
	// dirs by controller; in version 2 all are the same.
	dirs map[string]string
	kernel
}

// New makes a group with limits. Its name has to be new.
func (d *Driver) New(name string, l sandbox.Limits) (*Group, error) {
	g := &Group{v2: d.unified != "", name: name, dirs: map[string]string{}, kernel: d.kernel}
	made := map[string]bool{}
	for controller := range d.has {
		parent := d.parents[controller]
		if g.v2 {
			parent = d.unified
		}
		dir := filepath.Join(parent, name)
		if !made[dir] {
			if err := g.mkdir(dir); err != nil {
				return nil, errors.Join(fmt.Errorf("make a control group: %w", err), g.Remove())
			}
			made[dir] = true
		}
		g.dirs[controller] = dir
	}
	if err := g.limit(l); err != nil {
		return nil, errors.Join(fmt.Errorf("limit a control group: %w", err), g.Remove())
	}
	return g, nil
}

// Child makes a group in a group, which counts what one command uses and is bounded as its parent is. No process may be
// in the parent itself. The child of no group is none.
func (g *Group) Child() (*Group, error) {
	if g == nil {
		return nil, nil //nolint:nilnil // a nil Group is valid
	}
	c := &Group{v2: g.v2, name: fmt.Sprintf("%s-%d", g.name, g.children.Add(1)), dirs: map[string]string{},
		kernel: g.kernel}
	if g.v2 {
		for _, name := range []string{"memory", "io"} {
			if dir := g.dirs[map[string]string{"memory": "memory", "io": "blkio"}[name]]; dir != "" {
				_ = g.put(dir, "cgroup.subtree_control", "+"+name) // without it this is not counted
			}
		}
	}
	made := map[string]bool{}
	for controller, parent := range g.dirs {
		if controller == "cpu" && !g.v2 {
			c.dirs[controller] = parent // it counts nothing
			continue
		}
		dir := filepath.Join(parent, c.name)
		if !made[dir] {
			if err := g.mkdir(dir); err != nil {
				return nil, errors.Join(fmt.Errorf("make a control group: %w", err), c.Remove())
			}
			made[dir] = true
		}
		c.dirs[controller] = dir
	}
	return c, nil
}

func (g *Group) limit(l sandbox.Limits) error {
	type set struct{ controller, file, value string }
	var list []set
	if l.Memory > 0 {
		bytes := strconv.FormatInt(l.Memory, 10)
		if g.v2 {
			list = append(list, set{"memory", "memory.max", bytes}, set{"memory", "memory.swap.max", "0"},
				set{"memory", "memory.oom.group", "1"})
		} else {
			list = append(list, set{"memory", "memory.limit_in_bytes", bytes}, set{"memory", "memory.memsw.limit_in_bytes",
				bytes})
		}
	}
	if l.PIDs > 0 {
		list = append(list, set{"pids", "pids.max", strconv.Itoa(l.PIDs)})
	}
	if quota := strconv.FormatInt(int64(l.CPU*period), 10); l.CPU > 0 {
		if g.v2 {
			list = append(list, set{"cpu", "cpu.max", quota + " " + strconv.Itoa(period)})
		} else {
			list = append(list, set{"cpu", "cpu.cfs_period_us", strconv.Itoa(period)}, set{"cpu", "cpu.cfs_quota_us", quota})
		}
	}
	for _, s := range list {
		dir, ok := g.dirs[s.controller]
		if !ok {
			return fmt.Errorf("%w: the controller %s is missing", sandbox.ErrNotEnforced, s.controller)
		}
		err := g.put(dir, s.file, s.value)
		if errors.Is(err, os.ErrNotExist) && strings.Contains(s.file, "sw") {
			continue // a kernel that does not count swap has none of these files
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Files are the files that take the id of a process that joins; "0" stands for the writer.
func (g *Group) Files() []string {
	if g == nil {
		return nil
	}
	var files []string
	for _, dir := range g.dirs {
		if file := filepath.Join(dir, "cgroup.procs"); !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	return files
}

// Add puts a process into the group; what it starts from then on is in it too.
func (g *Group) Add(pid int) error {
	for _, file := range g.Files() {
		if err := g.put(filepath.Dir(file), filepath.Base(file), strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("put process %d into its control group: %w", pid, err)
		}
	}
	return nil
}

// Usage is what all processes of a group used so far.
type Usage struct {
	User, System          time.Duration
	MaxMemory             int64
	ReadBytes, WriteBytes int64
	// Killed counts processes that the kernel ended because the group had no memory left.
	Killed int64
}

// Fill sets what an Exit tells of usage.
func (u Usage) Fill(exit *sandbox.Exit) {
	exit.User, exit.System, exit.MaxRSS, exit.ReadBytes, exit.WriteBytes = u.User, u.System, u.MaxMemory, u.ReadBytes,
		u.WriteBytes
}

// Usage reads the counters; what is not known is 0.
func (g *Group) Usage() Usage {
	if g == nil {
		return Usage{}
	}
	if g.v2 {
		return usage(g.dirs["cpuacct"], g.dirs["memory"], g.dirs["blkio"])
	}
	var u Usage
	u.User = time.Duration(number(g.dirs["cpuacct"], "cpuacct.usage_user"))
	u.System = time.Duration(number(g.dirs["cpuacct"], "cpuacct.usage_sys"))
	u.MaxMemory = number(g.dirs["memory"], "memory.max_usage_in_bytes")
	u.Killed = table(g.dirs["memory"], "memory.oom_control")["oom_kill"]
	for line := range strings.Lines(text(g.dirs["blkio"], "blkio.throttle.io_service_bytes")) {
		if f := strings.Fields(line); len(f) == 3 {
			n, _ := strconv.ParseInt(f[2], 10, 64) // the kernel's own
			switch f[1] {
			case "Read":
				u.ReadBytes += n
			case "Write":
				u.WriteBytes += n
			}
		}
	}
	return u
}

// UsageOf reads the counters of the group of a directory of version 2; what is not known is 0.
func UsageOf(dir string) Usage { return usage(dir, dir, dir) }

func usage(cpu, memory, io string) (u Usage) {
	stat := table(cpu, "cpu.stat")
	u.User, u.System = time.Duration(stat["user_usec"])*time.Microsecond,
		time.Duration(stat["system_usec"])*time.Microsecond
	u.MaxMemory, u.Killed = number(memory, "memory.peak"), table(memory, "memory.events")["oom_kill"]
	u.ReadBytes, u.WriteBytes = ioStat(io)
	return u
}

func ioStat(dir string) (read, write int64) {
	for field := range strings.FieldsSeq(text(dir, "io.stat")) {
		if n, ok := strings.CutPrefix(field, "rbytes="); ok {
			v, _ := strconv.ParseInt(n, 10, 64) // the kernel's own
			read += v
		}
		if n, ok := strings.CutPrefix(field, "wbytes="); ok {
			v, _ := strconv.ParseInt(n, 10, 64)
			write += v
		}
	}
	return read, write
}

// Remove ends every process of the group and takes the group away.
func (g *Group) Remove() error {
	if g == nil {
		return nil
	}
	var failed []error
	deadline := time.Now().Add(endWait)
	for _, dir := range g.unique() {
		if err := g.end(dir, deadline); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// unique are the directories, that of the controller pids first: it keeps the group from growing.
func (g *Group) unique() []string {
	var dirs []string
	for _, name := range append([]string{"pids"}, controllers[:]...) {
		if dir, ok := g.dirs[name]; ok && filepath.Base(dir) == g.name && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// End kills what is in the group of a directory and removes it; one that is gone is no error.
func End(dir string, deadline time.Time) error {
	_ = put(dir, "pids.max", "0") // only where the controller is there: nothing forks any more
	below, _ := os.ReadDir(dir)   // what cannot be listed cannot be removed either, and is told then
	for _, entry := range below {
		if entry.IsDir() {
			if err := End(filepath.Join(dir, entry.Name()), deadline); err != nil {
				return err
			}
		}
	}
	for {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if put(dir, "cgroup.kill", "1") != nil {
			for pid := range strings.FieldsSeq(text(dir, "cgroup.procs")) {
				if n, err := strconv.Atoi(pid); err == nil && n > 1 {
					_ = syscall.Kill(n, syscall.SIGKILL)
				}
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("remove the control group %s: %w", dir, err)
		}
		time.Sleep(endTick)
	}
}

// Directories are where groups are made, each once.
func (d *Driver) Directories() []string {
	if d.unified != "" {
		return []string{d.unified}
	}
	var list []string
	for _, dir := range d.parents {
		if !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	slices.Sort(list)
	return list
}

func put(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

func text(dir, file string) string {
	if dir == "" {
		return ""
	}
	data, _ := os.ReadFile(filepath.Join(dir, file)) // what is not there is not known
	return string(data)
}

func number(dir, file string) int64 {
	n, _ := strconv.ParseInt(string(bytes.TrimSpace([]byte(text(dir, file)))), 10, 64) // 0 where it is not known
	return n
}

func table(dir, file string) map[string]int64 {
	out := map[string]int64{}
	for line := range strings.Lines(text(dir, file)) {
		if f := strings.Fields(line); len(f) == 2 {
			out[f[0]], _ = strconv.ParseInt(f[1], 10, 64) // 0 where it is no number
		}
	}
	return out
}
