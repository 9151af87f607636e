// Package formula turns files that describe work into the plan of a task: parse, resolve, compile.
//
// A formula is a TOML file, a workflow a YAML file of another dialect; both become the same Formula, and with the
// values of its variables that becomes a Compiled, which a task carries to the station.
//
// Promises: equal files and equal values give equal plans, byte for byte. Nothing is read but the fs.FS that is given,
// and nothing is asked: no clock, no environment, no network. The files are those of strangers: everything has a limit,
// an unknown key is refused and so is a known one that no run can carry out, nothing is ignored. Each refusal names
// file, line and column, and what to do. Values of variables are put into texts for agents as they are and never looked
// at again; they are never part of a command.
package formula
