// Package storecheck looks for damage in the files of a station's store before a server opens them.
//
// Promises: a server that opens a damaged store may cut off what follows the damage, so this package reads the files
// first and never leaves it to the server. A flipped bit is turned back where a checksum proves which one it was; state
// that can be made again is removed, so that it is; what is lost is reported with its positions, and nothing that
// follows it goes with it. A file is copied aside before it is changed. What a crash leaves behind is no damage:
// records that end before their last byte and were never marked as stored are only noted.
//
// It knows the files of nats-server 2.15 (message blocks of version 1, checksums by HighwayHash). Blocks that are
// compressed or encrypted are compared with their digests and not read.
package storecheck
