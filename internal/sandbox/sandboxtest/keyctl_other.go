//go:build !linux

package sandboxtest

const keyctl = -1
