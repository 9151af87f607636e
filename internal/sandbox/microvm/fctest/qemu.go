package fctest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/sandbox/microvm/guest"
	"github.com/inspan/inspan/internal/sandbox/microvm/wire"
	"github.com/inspan/inspan/internal/sandbox/mirror"
	"github.com/inspan/inspan/internal/sandbox/mirror/mirrortest"
)

// What the file of a kernel says besides, for machines under the double of QEMU that go wrong.
const (
	// KernelOld boots, and its agent is of another version. KernelRubbish boots, and what speaks on its channel is no
	// agent.
	KernelOld       = "old"
	KernelMalformed = "rubbish"
	// Full is an argument of a command at which this computer's disk is full.
	Full = "the disk is full here"
)

// isQEMU reports whether this program was started in the place of QEMU.
func isQEMU() bool { return len(os.Args) > 3 && os.Args[1] == "-name" && os.Args[3] == "-nodefaults" }

// qemu is the double of QEMU: its machine ends with its channel, which is descriptor 3; its protocol of events is on 4.
func qemu() error {
	after := func(flag string) string {
		if at := slices.Index(os.Args, flag); at >= 0 && at+1 < len(os.Args) {
			return os.Args[at+1]
		}
		return ""
	}
	kernel, err := os.ReadFile(after("-kernel"))
	if err != nil {
		return fmt.Errorf("could not open kernel file: %w", err)
	}
	if !strings.Contains(after("-append"), guest.ChannelFlag+guest.ChannelSerial) {
		return errors.New("the kernel's command line names no channel")
	}
	channel, events := os.NewFile(3, "channel"), os.NewFile(4, "events")
	if _, err := fmt.Fprintln(events,
		`{"QMP": {"version": {"qemu": {"major": 7}}, "capabilities": ["oob"]}}`); err != nil {
		return err
	}
	if word, err := bufio.NewReader(events).ReadString('\n'); err != nil || !strings.Contains(word, "qmp_capabilities") {
		return fmt.Errorf("no one reads what the machine writes: %q, %w", word, err)
	}
	var stream io.ReadWriteCloser = channel
	switch string(kernel) {
	case KernelGood:
	case KernelOld:
		stream = older{channel}
	case KernelMalformed:
		_, err := channel.Write(bytes.Repeat([]byte{0xff, 0, 'x', '\n'}, 1<<10))
		_, _ = io.Copy(io.Discard, channel) // until it is killed
		return err
	case KernelMute:
		_, err := io.Copy(io.Discard, channel)
		return err
	case KernelDies:
		fmt.Println("Kernel panic - not syncing: VFS: Unable to mount root fs")
		die()
	default:
		return errors.New("could not load kernel: it is none")
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	m, err := mirrortest.New(dir)
	if err != nil {
		return err
	}
	err = wire.Serve(context.Background(), stream, under{inside{m}, events})
	return errors.Join(err, m.End(context.Background()))
}

// older is a channel of which the agent is of another version.
type older struct{ io.ReadWriteCloser }

func (o older) Write(p []byte) (int, error) {
	said := bytes.Replace(p, fmt.Appendf(nil, `"version":%d`, wire.Version), fmt.Appendf(nil, `"version":%d`,
		wire.Version-1), 1)
	return o.ReadWriteCloser.Write(said)
}

// under is a machine under QEMU.
type under struct {
	inside
	events io.Writer
}

// Run implements wire.Guest.
func (u under) Run(ctx context.Context, p mirror.Program) error {
	if slices.Contains(p.Args, Full) {
		fmt.Fprintln(u.events, `{"event": "STOP", "timestamp": {"seconds": 1, "microseconds": 2}}`)
		fmt.Fprintln(u.events, `{"event": "BLOCK_IO_ERROR", "data": {"device": "box", "operation": "write", "action": "stop", "nospace": true, "reason": "No space left on device"}}`)
		<-ctx.Done() // a machine that was stopped stands still
	}
	return u.inside.Run(ctx, p)
}
