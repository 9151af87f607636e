//go:build !unix

package archive

import "os"

// lockFile only marks the folder: this system has no lock that ends with its process.
func lockFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}
