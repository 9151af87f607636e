package client

// LookFirst is lookFirst.
const LookFirst = lookFirst
