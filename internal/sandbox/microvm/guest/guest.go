// Package guest is what works inside of the virtual machines of sandboxes: the first process of the machine, and the
// agent that does for the toolrunner outside what it asks (package wire).
//
// Promises: a program whose main calls Main and that is /init of a machine's first file system loads the machine's
// modules, shows the operator's root read-only, makes the disks of the sandbox and serves the one channel to the
// outside. Commands are run as a user without any right, behind the system call filter, each in a control group of its
// own: when one has ended, everything it started is gone. When the channel ends, the machine ends. Nothing of it is of
// use outside of a machine.
package guest

// The ways in which the outside is reached, as the kernel's command line names them.
const (
	// ChannelFlag begins the word of the command line.
	ChannelFlag = "inspan.channel="
	// ChannelSerial is a virtio port of the name PortName; ChannelVsock is a vsock on which the agent listens at
	// VsockPort.
	ChannelSerial = "serial"
	ChannelVsock  = "vsock"
	PortName      = "inspan"
	VsockPort     = 1024
)

// Home is the home of commands before the sandbox's own is made. User is who they are.
const (
	Home = "/home/agent"
	User = 1000
)

// The parts of the program, as its only argument.
const (
	wordAgent  = "agent"
	wordLaunch = "launch"
)
