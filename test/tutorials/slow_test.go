//go:build slow

package tutorials

const slow = true
