// Package models lets whole stations work with models of each provider.
//
// Promises: the station is a real one, with its own JetStream and all roles; only the provider is a server on 127.0.0.1
// that streams what the provider's documentation describes.
package models
