// Package docker runs commands in containers of a Docker engine on this machine, version 20.10 or later.
//
// Promises: a command sees the files of an image, which it cannot write, its workspace at the path that it has outside,
// what Config.ReadOnly and Config.Writable name, and a HOME and /tmp of its own that last as long as the sandbox. It
// has no capability, no means to get one, the user of the toolrunner, a system call filter above that of the engine,
// and no network unless Config.Network. A container is started with a sandbox's first command and lives until Destroy;
// the commands are run in it by exec, and each is over when every process that it started is gone. What is mounted is
// looked at from inside before the first command: where a link was put in the place of a named path, or the engine has
// other files than this machine, nothing runs. File operations go to the workspace itself and need no container.
//
// An engine that is lost ends the commands that run with sandbox.ErrLost. A container ends by itself when its
// toolrunner is lost; Reap removes what is left of those of lost toolrunners and of destroyed sandboxes.
package docker

// DefaultImage is the image of sandboxes that name none, where the settings name none either. make sandbox-image builds
// it on this machine; no registry is asked for it.
const DefaultImage = "inspan-sandbox:0.1.0"

// Config says which engine is used and what its containers are made of.
type Config struct {
	// Host is the engine's address as DOCKER_HOST has it; empty means DOCKER_HOST, or the system's own engine.
	Host string
	// Image is that of sandboxes that name none; empty means DefaultImage.
	Image string
	// Pull gets an image that is not there from its registry; without it such an image is refused.
	Pull bool
	// Network is the engine's network for sandboxes whose network is open; empty means bridge.
	Network string
	// User of commands as UID:GID; empty means that of this process, which then must not be root.
	User string
	// Helper is the path of a static program that answers within.Main; empty means inspan-within beside this program,
	// or this program itself.
	Helper string
	// Base is where private directories of sandboxes are made; empty means the system's place for temporary files.
	Base string
}
