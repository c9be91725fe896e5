"""Control variates: an anchor at the mode, cheap proxies of the losses around it, and bounds on what they leave."""
