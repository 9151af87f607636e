package agentfile

// LoadDir reads a directory whose agents get no defaults.
var LoadDir = Defaults{}.LoadDir
