package natsguard
