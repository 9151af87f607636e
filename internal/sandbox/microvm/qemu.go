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

// channelFD is where QEMU finds the machine's channel.
const channelFD = 3

// qemu starts a machine under QEMU.
func qemu(_ context.Context, program string, s spec) (*process, io.ReadWriteCloser, func(), error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make the machine's channel: %w", err)
	}
	syscall.CloseOnExec(pair[0])
	syscall.CloseOnExec(pair[1])
	ours, theirs := os.NewFile(uintptr(pair[0]), "channel"), os.NewFile(uintptr(pair[1]), "channel inside")
	channel, err := net.FileConn(ours)
	_ = ours.Close() // the connection has one of its own
	if err != nil {
		_ = theirs.Close()
		return nil, nil, nil, fmt.Errorf("make the machine's channel: %w", err)
	}
	cmd := exec.Command(program, s.qemuArgs()...)
	cmd.Dir, cmd.Env, cmd.ExtraFiles = s.dir, []string{marker(s.name)}, []*os.File{theirs}
	engine, err := run(cmd)
	_ = theirs.Close() // the engine has one of its own
	if err != nil {
		return nil, nil, nil, errors.Join(err, channel.Close())
	}
	return engine, channel, nil, nil
}

// qemuArgs is QEMU's command line: nothing but what is named, no network card, and QEMU itself behind its own filter.
func (s spec) qemuArgs() []string {
	cpu := "max"
	accel := "tcg,tb-size=64"
	if s.accel == KVM {
		cpu, accel = "host", "kvm"
	}
	args := []string{"-name", "inspan", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-machine", "pc,acpi=off,hpet=off,usb=off,vmport=off", "-accel", accel, "-cpu", cpu, "-smp", fmt.Sprint(s.cpus), "-m", fmt.Sprintf("%dM", s.memory/mebi),
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-kernel", s.kernel, "-append", commandLine(guest.ChannelSerial, "reboot=t")}
	if s.initrd != "" {
		args = append(args, "-initrd", s.initrd)
	}
	for _, d := range []struct{ id, file, more string }{{"root", s.root, ",readonly=on"}, {"box", s.box, ",cache=unsafe,discard=unmap"}, {"transit", s.transit, ",cache=unsafe,discard=unmap"}} {
		args = append(args, "-drive", "if=none,format=raw,id="+d.id+",file="+strings.ReplaceAll(d.file, ",", ",,")+d.more, "-device", "virtio-blk-pci,drive="+d.id)
	}
	return append(args, "-device", "virtio-serial-pci,max_ports=2", "-chardev", fmt.Sprintf("socket,id=channel,fd=%d", channelFD),
		"-device", "virtserialport,chardev=channel,name="+guest.PortName)
}
