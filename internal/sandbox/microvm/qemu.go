package microvm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/inspan/inspan/internal/sandbox/microvm/guest"
)

// channelFD is where QEMU finds the machine's channel, and eventsFD where it tells of itself.
const (
	channelFD = 3
	eventsFD  = 4
)

// qemu starts a machine under QEMU.
func qemu(_ context.Context, program string, s spec) (*process, io.ReadWriteCloser, func(), error) {
	channel, theirs, err := pair()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make the machine's channel: %w", err)
	}
	events, itsEvents, err := pair()
	if err != nil {
		return nil, nil, nil, errors.Join(fmt.Errorf("make the machine's channel: %w", err), channel.Close(), theirs.Close())
	}
	cmd := exec.Command(program, s.qemuArgs()...)
	cmd.Dir, cmd.Env, cmd.ExtraFiles = s.dir, []string{marker(s.name)}, []*os.File{theirs, itsEvents}
	engine, err := run(cmd)
	_, _ = theirs.Close(), itsEvents.Close() // the engine has its own
	if err != nil {
		return nil, nil, nil, errors.Join(err, channel.Close(), events.Close())
	}
	engine.watches.Go(func() { watch(events, engine) })
	return engine, channel, nil, nil
}

// pair makes a connection and the file of its other end.
func pair() (net.Conn, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, err
	}
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	conn, err := net.FileConn(ours)
	_ = ours.Close() // the connection has one of its own
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return conn, theirs, nil
}

// qemuArgs is QEMU's command line: nothing but what is named, no network card, and QEMU itself behind its own filter.
func (s spec) qemuArgs() []string {
	cpu := "max"
	accel := "tcg,tb-size=64"
	if s.accel == KVM {
		cpu, accel = "host", "kvm"
	}
	args := []string{"-name", "inspan", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-machine", "pc,acpi=off,hpet=off,usb=off,vmport=off", "-accel", accel, "-cpu", cpu, "-smp", fmt.Sprint(s.cpus), "-m",
		fmt.Sprintf("%dM", s.memory/mebi),
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-kernel", s.kernel, "-append", commandLine(guest.ChannelSerial, "reboot=t")}
	if s.initrd != "" {
		args = append(args, "-initrd", s.initrd)
	}
	// A write that has no room on this computer stops the machine, and watch ends it: the machine's kernel would not
	// tell who wrote.
	const written = ",cache=unsafe,discard=unmap,werror=stop"
	for _, d := range []struct{ id, file, more string }{{"root", s.root, ",readonly=on"}, {"box", s.sandbox, written},
		{"transit", s.transit, written}} {
		args = append(args, "-drive", "if=none,format=raw,id="+d.id+",file="+strings.ReplaceAll(d.file, ",", ",,")+d.more,
			"-device", "virtio-blk-pci,drive="+d.id)
	}
	return append(args, "-device", "virtio-serial-pci,max_ports=2", "-chardev", fmt.Sprintf("socket,id=channel,fd=%d",
		channelFD),
		"-device", "virtserialport,chardev=channel,name="+guest.PortName,
		"-chardev", fmt.Sprintf("socket,id=events,fd=%d", eventsFD), "-mon", "chardev=events,mode=control")
}
