// Package inside is what a proxy does inside of a sandbox, in the moment before a command begins.
//
// Promises: a program whose main calls Main first can be started by a sandbox as its own helper. The helper listens on
// 127.0.0.1 in the network namespace of the sandbox, which has nothing but its own loopback, hands that listener out
// over a socket that it inherited, and becomes the command. Nothing of it is left inside: the command inherits neither
// the listener nor the socket, and the only thing there is to connect to is a port whose other end is the proxy
// outside.
package inside

// Flag is the first argument of the helper. Programs that do not know it refuse it as a flag, and do nothing.
const Flag = "-inspan-door"

// Port is where the proxy listens on 127.0.0.1 of each sandbox.
const Port = 3128

// Failed is the exit status of a helper whose command could not begin, as a shell has it.
const Failed = 127

// ready is what goes with the listener; a text after it says why the command could not begin.
const ready = 1
