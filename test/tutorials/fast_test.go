//go:build !slow

package tutorials

const slow = false
