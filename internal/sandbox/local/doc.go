// Package local holds what the backends that run on this machine share: file access that cannot leave the
// workspace (Files), running one command and ending all of it (Run), the fixed environment (Env), and the life of a
// sandbox (Life).
//
// Promises: nothing of the service's own environment reaches a command. When Run returns, the process, its group,
// its descendants and every process that carries its marker are gone, so nothing outlives its Exec. Output is passed
// on as it comes and never held. A file operation either stays inside the workspace or returns sandbox.ErrOutside.
package local
