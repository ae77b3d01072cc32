"""Programs that carry plans out, a process a rank. Nothing imports them: they import torch, and patch what they run."""
