// Package fctest is a double of Firecracker: a program that has its API on a unix socket, written from the published
// description, and a machine in whose place programs run on this computer.
//
// Promises: what the API refuses it refuses: fields that are not known, files that are not there, a machine without a
// kernel, a word that comes too late. The vsock is a unix socket that speaks Firecracker's CONNECT. Behind it is the
// wire of the agent, whose programs run in a directory of their own (package mirrortest) and end with the machine. It
// puts up no wall and no limit. Started with the command line of QEMU it stands for QEMU: it takes what it needs of it,
// and has the same machine behind the channel that it inherits.
package fctest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/inspan/inspan/internal/sandbox/microvm/guest"
	"github.com/inspan/inspan/internal/sandbox/microvm/wire"
	"github.com/inspan/inspan/internal/sandbox/mirror"
	"github.com/inspan/inspan/internal/sandbox/mirror/mirrortest"
)

// What the file of a kernel says, for machines that go wrong.
const (
	// KernelGood boots, KernelBad is refused when the machine is started, KernelMute boots and its agent never listens.
	// KernelDies ends the engine when it is started.
	KernelGood = "good"
	KernelBad  = "bad"
	KernelMute = "mute"
	KernelDies = "dies"
	// Dies is an argument of a command with which the machine is lost.
	Dies = "the machine dies here"
)

// Main is the engine where a test program was started in its place, until it is killed or its machine ends: then a
// TestMain does nothing else. Otherwise it returns false.
func Main() bool {
	if isQEMU() {
		if err := qemu(); err != nil {
			fmt.Fprintln(os.Stderr, "double of QEMU:", err)
		}
		return true
	}
	if len(os.Args) != 5 || os.Args[1] != "--api-sock" || os.Args[3] != "--id" {
		return false
	}
	if err := run(os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "double of Firecracker:", err)
	}
	return true
}

// die ends the engine at once.
func die() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }

// engine is one process of the double.
type engine struct {
	dir  string
	quit context.CancelFunc

	mu      sync.Mutex
	puts    map[string]json.RawMessage // what was said, by path; guarded by mu, as is what follows
	started bool
	machine *mirrortest.Machine
	vsock   net.Listener
	serving sync.WaitGroup
}

func run(api string) error {
	ctx, quit := context.WithCancel(context.Background())
	defer quit()
	e := &engine{dir: filepath.Dir(api), quit: quit, puts: map[string]json.RawMessage{}}
	l, err := net.Listen("unix", api)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"id": "inspan", "state": "Not started", "vmm_version": "1.0.0",
			"app_name": "Firecracker"})
	})
	mux.HandleFunc("PUT /", e.put)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1) // one result
	go func() { served <- server.Serve(l) }()
	<-ctx.Done()
	_ = server.Shutdown(context.Background()) // so that the last answer is received
	<-served
	return e.end()
}

// shapes are what each path may be told.
func shapes() map[string]any {
	return map[string]any{
		"/machine-config": &struct {
			CPUs   int   `json:"vcpu_count"`
			Memory int64 `json:"mem_size_mib"`
		}{},
		"/boot-source": &bootSource{},
		"/vsock": &struct {
			CID  int    `json:"guest_cid"`
			Path string `json:"uds_path"`
		}{},
		"/actions": &struct {
			Type string `json:"action_type"`
		}{},
		"/drives/": &drive{},
	}
}

type bootSource struct {
	Kernel string `json:"kernel_image_path"`
	Initrd string `json:"initrd_path"`
	Args   string `json:"boot_args"`
}

type drive struct {
	ID       string `json:"drive_id"`
	Path     string `json:"path_on_host"`
	Root     bool   `json:"is_root_device"`
	ReadOnly bool   `json:"is_read_only"`
}

// put answers one word.
func (e *engine) put(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.take(r); err != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"fault_message": err.Error()}) // who asked may be gone
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (e *engine) take(r *http.Request) error {
	path := r.URL.Path
	kind := path
	if strings.HasPrefix(path, "/drives/") {
		kind = "/drives/"
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return err
	}
	shape := shapes()[kind]
	if shape == nil {
		return fmt.Errorf("Invalid request method and/or path: PUT %s", path)
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(shape); err != nil {
		return fmt.Errorf("An error occurred when deserializing the json body of a request: %w", err)
	}
	if kind == "/actions" {
		return e.act(string(body))
	}
	if e.started {
		return errors.New("The requested operation is not supported after starting the microVM.")
	}
	var files []string
	switch s := shape.(type) {
	case *bootSource:
		files = append(files, s.Kernel)
		if s.Initrd != "" {
			files = append(files, s.Initrd)
		}
	case *drive:
		if path != "/drives/"+s.ID {
			return errors.New("The id from the path does not match the id from the body!")
		}
		files = append(files, s.Path)
	}
	for _, name := range files {
		if _, err := os.Stat(name); err != nil {
			return fmt.Errorf("the file cannot be opened: %w", err)
		}
	}
	e.puts[path] = body
	return nil
}

// act starts or ends the machine.
func (e *engine) act(body string) error {
	switch {
	case strings.Contains(body, `"SendCtrlAltDel"`):
		if !e.started {
			return errors.New("The requested operation is not supported before starting the microVM.")
		}
		e.quit()
		return nil
	case !strings.Contains(body, `"InstanceStart"`):
		return errors.New("An error occurred when deserializing the json body of a request: unknown variant")
	case e.started:
		return errors.New("The requested operation is not supported after starting the microVM.")
	}
	var boot bootSource
	if e.puts["/boot-source"] == nil || json.Unmarshal(e.puts["/boot-source"], &boot) != nil {
		return errors.New("Cannot start microvm without kernel configuration.")
	}
	kernel, err := os.ReadFile(boot.Kernel)
	if err != nil {
		return err
	}
	switch string(kernel) {
	case KernelGood, KernelMute:
	case KernelDies:
		fmt.Println("Kernel panic - not syncing: VFS: Unable to mount root fs")
		die()
	default:
		return errors.New("Cannot load kernel due to invalid memory configuration or invalid kernel image: Invalid ELF magic number")
	}
	e.started = true
	if string(kernel) == KernelMute || !strings.Contains(boot.Args, guest.ChannelFlag+guest.ChannelVsock) {
		return nil
	}
	return e.listen()
}

// listen begins to answer at the vsock.
func (e *engine) listen() (err error) {
	var vsock struct {
		Path string `json:"uds_path"`
	}
	if err := json.Unmarshal(e.puts["/vsock"], &vsock); err != nil {
		return fmt.Errorf("the machine has no vsock: %w", err)
	}
	if e.machine, err = mirrortest.New(e.dir); err != nil {
		return err
	}
	if e.vsock, err = net.Listen("unix", vsock.Path); err != nil {
		return err
	}
	e.serving.Go(func() {
		for {
			conn, err := e.vsock.Accept()
			if err != nil {
				return
			}
			e.serving.Go(func() { _ = e.agent(conn) }) // who connected sees it
		}
	})
	return nil
}

// agent is one connection to the machine.
func (e *engine) agent(conn net.Conn) error {
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	if err != nil || line != fmt.Sprintf("CONNECT %d\n", guest.VsockPort) {
		return err
	}
	if _, err := io.WriteString(conn, "OK 1073741824\n"); err != nil {
		return err
	}
	return wire.Serve(context.Background(), struct {
		io.Reader
		io.WriteCloser
	}{r, conn}, inside{e.machine})
}

// end ends what runs in the machine.
func (e *engine) end() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.machine == nil {
		return nil
	}
	return errors.Join(e.vsock.Close(), e.machine.End(context.Background()))
}

// inside is the machine as its agent has it.
type inside struct{ *mirrortest.Machine }

var _ wire.Guest = inside{}

// Run implements wire.Guest.
func (i inside) Run(ctx context.Context, p mirror.Program) error {
	if slices.Contains(p.Args, Dies) {
		die()
	}
	return i.Machine.Run(ctx, p)
}

// Hold implements wire.Guest. The double has no walls: what says where they are is looked at.
func (i inside) Hold(_ context.Context, h wire.Hold, _ func() (net.Conn, error)) error {
	if !strings.HasPrefix(h.Base, i.Home+"/") {
		return fmt.Errorf("%w: the base %q", wire.ErrStream, h.Base)
	}
	if h.Port != 0 {
		return errors.New("the double has no loopback of its own")
	}
	return nil
}

// Full implements wire.Guest: the disk of the double is never full.
func (inside) Full(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}
