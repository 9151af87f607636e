//go:build !linux

package natsserver

// memoryRoot is a folder in memory: none is known here.
const memoryRoot = ""

func isMemory(string) bool { return false }

func isOwn(string) bool { return false }
